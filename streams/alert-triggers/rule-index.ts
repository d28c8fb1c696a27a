/**
 * The enabled rules of a partition, by id and by what they wait for.
 *
 * Per item one group for each kind and currency: thresholds of one currency keep their order whatever
 * its rate, so new rates move no rule. Invariant: of an enabled alert the highest version seen counts,
 * whatever is repeated; a rule that fired stays known by its version, until its next, but waits for nothing.
 */
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { parseThreshold } from '#schemas/values/alert.ts'
import { type Rule, RuleGroup } from './rule-group.ts'

/** The rules of a partition. */
export interface RuleIndex {
  /** Notes a rule's new state; the rule that is to be evaluated and then added, if there is one. */
  note(changed: AlertRuleChanged): Rule | undefined
  /** Forgets a deleted alert. */
  forget(id: string): void
  /** Whether this rule is still what its alert asks for. */
  isCurrent(rule: Rule): boolean
  /** Lets a rule wait for its condition. */
  add(rule: Rule): void
  /** Removes the top rule of a group: it fires. */
  take(group: RuleGroup): void
  groups(itemId: number): readonly RuleGroup[]
  /** Items that some rule of these currencies waits on. */
  itemsWith(currencies: ReadonlySet<string>): number[]
  /** Rules that wait. */
  size(): number
}

const NO_GROUPS: readonly RuleGroup[] = []

/** Opens an empty index. */
export function openRuleIndex(): RuleIndex {
  const byId = new Map<string, Rule>()
  const byItem = new Map<number, RuleGroup[]>()
  const codes = new Map<string, string>()
  let waiting = 0

  /** One copy of each currency code: a decoder makes a new text every time. */
  const shared = (code: string): string => {
    const known = codes.get(code)
    if (known !== undefined) return known
    codes.set(code, code)
    return code
  }
  const groupOf = (rule: Rule): RuleGroup | undefined =>
    byItem.get(rule.itemId)?.find(({ kind, currency }) => kind === rule.kind && currency === rule.currency)
  const leave = (rule: Rule | undefined): void => {
    if (rule === undefined || !rule.isLive) return
    rule.isLive = false
    waiting -= 1
    const group = groupOf(rule)
    group?.left()
    if (group?.size === 0) dropGroup(rule.itemId, group)
  }
  const dropGroup = (itemId: number, group: RuleGroup): void => {
    const others = byItem.get(itemId)?.filter(one => one !== group) ?? []
    if (others.length === 0) byItem.delete(itemId)
    else byItem.set(itemId, others)
  }
  return {
    note(changed) {
      const known = byId.get(changed.alert_id)
      if (known !== undefined && known.version >= changed.version) return undefined
      leave(known)
      byId.delete(changed.alert_id)
      const rule = changed.is_enabled ? ruleOf(changed, shared(changed.threshold_currency ?? '')) : undefined
      if (rule === undefined) return undefined
      byId.set(rule.id, rule)
      return rule
    },
    forget(id) {
      leave(byId.get(id))
      byId.delete(id)
    },
    isCurrent: rule => byId.get(rule.id) === rule,
    add(rule) {
      let group = groupOf(rule)
      if (group === undefined) {
        group = new RuleGroup(rule.kind, rule.currency)
        byItem.set(rule.itemId, [...(byItem.get(rule.itemId) ?? NO_GROUPS), group])
      }
      rule.isLive = true
      waiting += 1
      group.add(rule)
    },
    take(group) {
      const rule = group.take()
      if (rule === undefined) return
      rule.isLive = false
      waiting -= 1
      if (group.size === 0) dropGroup(rule.itemId, group)
    },
    groups: itemId => byItem.get(itemId) ?? NO_GROUPS,
    itemsWith: currencies =>
      [...byItem].flatMap(([itemId, groups]) =>
        groups.some(({ currency }) => currencies.has(currency)) ? [itemId] : [],
      ),
    size: () => waiting,
  }
}

/** The rule of an event; undefined when its threshold is invalid, which no writer of ours lets pass. */
function ruleOf(changed: AlertRuleChanged, currency: string): Rule | undefined {
  const threshold = parseThreshold(changed.threshold_value)
  if (threshold === undefined) return undefined
  return {
    id: changed.alert_id,
    itemId: changed.item_id,
    kind: changed.kind,
    threshold,
    currency,
    version: changed.version,
    changedAt: changed.changed_at,
    isLive: false,
  }
}
