/**
 * The enabled rules of a partition, by id and by what they wait for.
 *
 * Per item one group for each kind and currency: thresholds of one currency keep their order whatever its rate, so new
 * rates move no rule. Of an enabled alert the highest version seen counts, whatever is repeated; a rule that fired
 * stays known by its version, until its next, but waits for nothing.
 */
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { type AlertKind, parseThreshold } from '#schemas/values/alert.ts'

export type EnabledRule = NonNullable<ReturnType<typeof ruleOf>>

const NO_GROUPS: readonly RuleGroup[] = []

export function openRuleIndex() {
  const byId = new Map<string, EnabledRule>()
  const byItem = new Map<number, RuleGroup[]>()
  let waiting = 0

  const groupOf = (rule: EnabledRule): RuleGroup | undefined =>
    byItem.get(rule.itemId)?.find(({ kind, currency }) => kind === rule.kind && currency === rule.currency)
  const remove = (rule: EnabledRule | undefined): void => {
    if (rule === undefined || !rule.isLive) return
    rule.isLive = false
    waiting -= 1
    const group = groupOf(rule)
    group?.remove(rule)
    if (group?.size === 0) dropGroup(rule.itemId, group)
  }
  const dropGroup = (itemId: number, group: RuleGroup): void => {
    const others = byItem.get(itemId)?.filter(one => one !== group) ?? []
    if (others.length === 0) byItem.delete(itemId)
    else byItem.set(itemId, others)
  }
  return {
    /** Notes a rule's new state; the rule that is to be evaluated and then added, if there is one. */
    note(changed: AlertRuleChanged): EnabledRule | undefined {
      const before = byId.get(changed.alert_id)
      if (before !== undefined && before.version >= changed.version) return undefined
      remove(before)
      byId.delete(changed.alert_id)
      const rule = changed.is_enabled ? ruleOf(changed) : undefined
      if (rule !== undefined) byId.set(rule.id, rule)
      return rule
    },
    forget(id: string): void {
      remove(byId.get(id))
      byId.delete(id)
    },
    isCurrent: (rule: EnabledRule): boolean => byId.get(rule.id) === rule,
    add(rule: EnabledRule): void {
      let group = groupOf(rule)
      if (group === undefined) {
        group = new RuleGroup(rule.kind, rule.currency)
        byItem.set(rule.itemId, [...(byItem.get(rule.itemId) ?? NO_GROUPS), group])
      }
      rule.isLive = true
      waiting += 1
      group.add(rule)
    },
    pop(group: RuleGroup): void {
      const rule = group.pop()
      if (rule === undefined) return
      rule.isLive = false
      waiting -= 1
      if (group.size === 0) dropGroup(rule.itemId, group)
    },
    groups: (itemId: number): readonly RuleGroup[] => byItem.get(itemId) ?? NO_GROUPS,
    /** Items that some rule of these currencies waits on. */
    itemsWith: (currencies: ReadonlySet<string>): number[] =>
      [...byItem].flatMap(([itemId, groups]) =>
        groups.some(({ currency }) => currencies.has(currency)) ? [itemId] : [],
      ),
    /** The enabled rules, fired ones included. */
    all: (): Iterable<EnabledRule> => byId.values(),
    size: (): number => waiting,
  }
}

/** The rule of an event; undefined when its threshold is invalid, which no writer of ours lets pass. */
function ruleOf(changed: AlertRuleChanged) {
  const threshold = parseThreshold(changed.threshold_value)
  if (threshold === undefined) return undefined
  return {
    id: changed.alert_id,
    itemId: changed.item_id,
    kind: changed.kind,
    threshold,
    /** Empty for spreads. */
    currency: changed.threshold_currency ?? '',
    version: changed.version,
    changedAt: changed.changed_at,
    /** It is in a group and may fire. */
    isLive: false,
  }
}

/**
 * The rules of an item that wait for the same number to move, sorted by threshold; the last one, its top, fires first.
 *
 * A class, because a million rules make some hundred thousand groups and each closure would cost its bytes. The top of
 * `price_below` is its highest threshold, that of the other kinds the lowest: when the top does not fire, no other rule
 * does. Rules are put in order when the top is asked for, so that a million of them are sorted once when a partition opens.
 */
class RuleGroup {
  readonly kind: AlertKind
  readonly currency: string
  readonly #rules: EnabledRule[] = []
  #isSorted = true

  constructor(kind: AlertKind, currency: string) {
    this.kind = kind
    this.currency = currency
  }

  get size(): number {
    return this.#rules.length
  }

  add(rule: EnabledRule): void {
    this.#rules.push(rule)
    this.#isSorted = false
  }

  remove(rule: EnabledRule): void {
    this.#rules.splice(this.#rules.indexOf(rule), 1)
  }

  top(): EnabledRule | undefined {
    if (!this.#isSorted) {
      const order = this.kind === 'price_below' ? 1 : -1
      this.#rules.sort((a, b) => (a.threshold < b.threshold ? -order : a.threshold > b.threshold ? order : 0))
      this.#isSorted = true
    }
    return this.#rules.at(-1)
  }

  pop(): EnabledRule | undefined {
    return this.top() && this.#rules.pop()
  }
}
