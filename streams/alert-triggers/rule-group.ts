/**
 * Rules of one kind and currency on one item: a binary heap by threshold, whose top fires first.
 *
 * A class, because a million rules make some hundred thousand groups and each closure would cost its
 * bytes. The top of `price_below` is its highest threshold, that of the other kinds the lowest: when the top
 * does not fire, no other rule does. A rule that has left (`isLive` false) stays until
 * it comes to the top or until half of the heap has left. Invariant: no live rule fires before the top.
 */
import type { AlertKind } from '#schemas/values/alert.ts'

/** An enabled rule. */
export interface Rule {
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

const COMPACT_FROM = 32

/** The rules of an item that wait for the same number to move. */
export class RuleGroup {
  readonly kind: AlertKind
  readonly currency: string
  #rules: Rule[] = []
  #gone = 0

  constructor(kind: AlertKind, currency: string) {
    this.kind = kind
    this.currency = currency
  }

  /** Live rules. */
  get size(): number {
    return this.#rules.length - this.#gone
  }

  add(rule: Rule): void {
    const rules = this.#rules
    let at = rules.push(rule) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = rules[parent] as Rule
      if (!this.#isBefore(rule, above)) break
      rules[at] = above
      at = parent
    }
    rules[at] = rule
  }

  /** Counts a rule whose `isLive` has been taken away. */
  left(): void {
    this.#gone += 1
    if (this.#gone < COMPACT_FROM || this.#gone * 2 <= this.#rules.length) return
    const live = this.#rules.filter(rule => rule.isLive)
    this.#rules = []
    this.#gone = 0
    for (const rule of live) this.add(rule)
  }

  /** The live rule that fires first. */
  top(): Rule | undefined {
    while (this.#rules[0]?.isLive === false) {
      this.#removeFirst()
      this.#gone -= 1
    }
    return this.#rules[0]
  }

  /** Takes the top out. */
  take(): Rule | undefined {
    return this.top() === undefined ? undefined : this.#removeFirst()
  }

  #isBefore(one: Rule, other: Rule): boolean {
    return this.kind === 'price_below' ? one.threshold > other.threshold : one.threshold < other.threshold
  }

  #removeFirst(): Rule | undefined {
    const first = this.#rules[0]
    const last = this.#rules.pop()
    if (last !== undefined && this.#rules.length > 0) this.#sink(last)
    return first
  }

  /** Puts a rule at the top and sifts it down. */
  #sink(rule: Rule): void {
    const rules = this.#rules
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= rules.length) break
      if (child + 1 < rules.length && this.#isBefore(rules[child + 1] as Rule, rules[child] as Rule)) child += 1
      const below = rules[child] as Rule
      if (!this.#isBefore(below, rule)) break
      rules[at] = below
      at = child
    }
    rules[at] = rule
  }
}
