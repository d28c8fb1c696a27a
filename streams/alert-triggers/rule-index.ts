/**
 * The enabled rules of a partition, by id and by what they wait for.
 *
 * Per item one group for each kind and currency: thresholds of one currency keep their order whatever its rate, so new
 * rates move no rule. Of an enabled alert the highest version seen counts, whatever is repeated; a rule that fired
 * stays known by its version, until its next, but waits for nothing.
 */
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { type AlertKind, parseThreshold } from '#schemas/values/alert.ts'

export interface EnabledRule {
  readonly id: string
  readonly itemId: number
  readonly kind: AlertKind
  /** Hundred-millionths. */
  readonly threshold: bigint
  /** Empty for spreads. */
  readonly currency: string
  readonly version: number
  readonly changedAt: number
  /** It is in a group and may fire. */
  isLive: boolean
}

export interface RuleIndex {
  /** Notes a rule's new state; the rule that is to be evaluated and then added, if there is one. */
  note(changed: AlertRuleChanged): EnabledRule | undefined
  forget(id: string): void
  /** Whether this rule is still what its alert asks for. */
  isCurrent(rule: EnabledRule): boolean
  add(rule: EnabledRule): void
  /** Removes the top rule of a group: it fires. */
  pop(group: RuleGroup): void
  groups(itemId: number): readonly RuleGroup[]
  /** Items that some rule of these currencies waits on. */
  itemsWith(currencies: ReadonlySet<string>): number[]
  /** The enabled rules, fired ones included. */
  all(): Iterable<EnabledRule>
  size(): number
}

const NO_GROUPS: readonly RuleGroup[] = []

/** Opens an empty index. */
export function openRuleIndex(): RuleIndex {
  const byId = new Map<string, EnabledRule>()
  const byItem = new Map<number, RuleGroup[]>()
  const codes = new Map<string, string>()
  let waiting = 0

  /** One copy of each currency code: a decoder makes a new text every time. */
  const shared = (code: string): string => {
    const copy = codes.get(code)
    if (copy !== undefined) return copy
    codes.set(code, code)
    return code
  }
  const groupOf = (rule: EnabledRule): RuleGroup | undefined =>
    byItem.get(rule.itemId)?.find(({ kind, currency }) => kind === rule.kind && currency === rule.currency)
  const remove = (rule: EnabledRule | undefined): void => {
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
      const before = byId.get(changed.alert_id)
      if (before !== undefined && before.version >= changed.version) return undefined
      remove(before)
      byId.delete(changed.alert_id)
      const rule = changed.is_enabled ? ruleOf(changed, shared(changed.threshold_currency ?? '')) : undefined
      if (rule === undefined) return undefined
      byId.set(rule.id, rule)
      return rule
    },
    forget(id) {
      remove(byId.get(id))
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
    pop(group) {
      const rule = group.pop()
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
    all: () => byId.values(),
    size: () => waiting,
  }
}

/** The rule of an event; undefined when its threshold is invalid, which no writer of ours lets pass. */
function ruleOf(changed: AlertRuleChanged, currency: string): EnabledRule | undefined {
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

const COMPACT_FROM = 32

/**
 * The rules of an item that wait for the same number to move: a binary heap by threshold, whose top fires first.
 *
 * A class, because a million rules make some hundred thousand groups and each closure would cost its bytes. The top of
 * `price_below` is its highest threshold, that of the other kinds the lowest: when the top does not fire, no other rule
 * does. A rule that has left (`isLive` false) stays until it comes to the top or until half of the heap has left.
 */
class RuleGroup {
  readonly kind: AlertKind
  readonly currency: string
  #rules: EnabledRule[] = []
  #gone = 0

  constructor(kind: AlertKind, currency: string) {
    this.kind = kind
    this.currency = currency
  }

  get size(): number {
    return this.#rules.length - this.#gone
  }

  add(rule: EnabledRule): void {
    const rules = this.#rules
    let at = rules.push(rule) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = rules[parent] as EnabledRule
      if (!this.#isBefore(rule, above)) break
      rules[at] = above
      at = parent
    }
    rules[at] = rule
  }

  /** Counts a rule whose `isLive` has become false. */
  left(): void {
    this.#gone += 1
    if (this.#gone < COMPACT_FROM || this.#gone * 2 <= this.#rules.length) return
    const live = this.#rules.filter(rule => rule.isLive)
    this.#rules = []
    this.#gone = 0
    for (const rule of live) this.add(rule)
  }

  /** The live rule that fires first. */
  top(): EnabledRule | undefined {
    while (this.#rules[0]?.isLive === false) {
      this.#removeFirst()
      this.#gone -= 1
    }
    return this.#rules[0]
  }

  pop(): EnabledRule | undefined {
    return this.top() === undefined ? undefined : this.#removeFirst()
  }

  #isBefore(one: EnabledRule, other: EnabledRule): boolean {
    return this.kind === 'price_below' ? one.threshold > other.threshold : one.threshold < other.threshold
  }

  #removeFirst(): EnabledRule | undefined {
    const first = this.#rules[0]
    const last = this.#rules.pop()
    if (last !== undefined && this.#rules.length > 0) this.#sink(last)
    return first
  }

  /** Puts a rule at the top and sifts it down. */
  #sink(rule: EnabledRule): void {
    const rules = this.#rules
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= rules.length) break
      if (child + 1 < rules.length && this.#isBefore(rules[child + 1] as EnabledRule, rules[child] as EnabledRule))
        child += 1
      const below = rules[child] as EnabledRule
      if (!this.#isBefore(below, rule)) break
      rules[at] = below
      at = child
    }
    rules[at] = rule
  }
}
