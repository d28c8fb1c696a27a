/**
 * When alerts may fire on a log of changes, and which must: each rule checked after each change of its item, by brute force.
 *
 * Written from DECISIONS.md, "Alerts", and shares no code with the triggers: every check sorts all rows of an item and compares
 * exact fractions. A rule fires once, by prices at which its condition holds. Which of them depends on when the role was there to
 * evaluate, so a rule whose condition holds at the end must have fired, and one whose condition held for a while may have.
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { LedgerEntry } from '#test/harness/ledger.ts'

/** A rule in dollars, or in percent for a spread; thresholds have two decimals. */
export interface PlainRule {
  id: string
  itemId: number
  kind: 'price_below' | 'price_above' | 'spread_exceeds'
  threshold: string
}

/** A trigger, as far as it is compared. */
interface WrittenTrigger {
  alert_id: string
  best_ask_micro_usd: number
  best_bid_micro_usd: number | null
  cause: string
  caused_at: number
}

const pricesOf = (trigger: WrittenTrigger): string => `${trigger.best_ask_micro_usd} ${trigger.best_bid_micro_usd}`

/** A trigger as the ledger takes it: keyed by alert, described by the prices when it fired. */
export const entryOfTrigger = (trigger: WrittenTrigger): LedgerEntry => ({
  key: trigger.alert_id,
  what: `${pricesOf(trigger)} ${trigger.caused_at}`,
})

/** The triggers that rules must give: the first that was written, where it may be, else one of each that holds at the end. */
export function expectedTriggers(
  rules: readonly PlainRule[],
  changes: readonly Pick<BookChanged, 'side' | 'provider' | 'item_id' | 'price_micro_usd' | 'seen_at'>[],
  written: readonly WrittenTrigger[],
): LedgerEntry[] {
  const { allowed, isMet } = evaluateAll(rules, changes)
  const first = new Map(written.toReversed().map(trigger => [trigger.alert_id, trigger]))
  return rules.flatMap(({ id: key }) => {
    const trigger = first.get(key)
    if (trigger === undefined) return isMet.has(key) ? [{ key, what: 'holds at the end' }] : []
    const entry = entryOfTrigger(trigger)
    // A rule that is evaluated when its partition is opened names the time of the rule.
    return allowed.get(key)?.has(trigger.cause === 'book' ? entry.what : pricesOf(trigger)) ? [entry] : []
  })
}

/** By rule: the prices at which its condition held, with the time of the change and without; and the rules that hold at the end. */
function evaluateAll(rules: readonly PlainRule[], changes: Parameters<typeof expectedTriggers>[1]) {
  const byItem = Map.groupBy(rules, ({ itemId }) => itemId)
  const rows = new Map<number, Map<string, number>>()
  const allowed = new Map(rules.map(({ id }) => [id, new Set<string>()]))
  const isMet = new Set<string>()
  for (const { side, provider, item_id, price_micro_usd: micro, seen_at } of changes) {
    const quotes = rows.get(item_id) ?? new Map<string, number>()
    rows.set(item_id, quotes)
    if (micro === null) quotes.delete(`${side}|${provider}`)
    else quotes.set(`${side}|${provider}`, micro)
    const of = (wanted: string) => [...quotes].filter(([key]) => key.startsWith(wanted)).map(([, price]) => price)
    const [asks, bids] = [of('ask'), of('bid')]
    const [ask, bid] = [Math.min(...asks), bids.length === 0 ? null : Math.max(...bids)]
    for (const rule of byItem.get(item_id) ?? []) {
      isMet.delete(rule.id)
      if (asks.length === 0 || !holds(rule, ask, bid)) continue
      isMet.add(rule.id)
      allowed.get(rule.id)?.add(`${ask} ${bid}`).add(`${ask} ${bid} ${seen_at}`)
    }
  }
  return { allowed, isMet }
}

function holds({ kind, threshold }: PlainRule, ask: number, bid: number | null): boolean {
  const hundredths = BigInt(threshold.replace('.', ''))
  if (kind === 'price_below') return BigInt(ask) < hundredths * 10_000n
  if (kind === 'price_above') return BigInt(ask) > hundredths * 10_000n
  return bid !== null && BigInt(ask - bid) * 10_000n > hundredths * BigInt(ask)
}
