/**
 * When alerts must fire on a log of changes: each rule checked after each change of its item, by brute force.
 *
 * Written from DECISIONS.md, "Alerts", and shares no code with the triggers: every check sorts all rows of an item and compares
 * exact fractions. Rules that are older than the first change fire at the first change after which their condition holds, and
 * never again.
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

/** A trigger as the ledger takes it: keyed by alert, described by the prices when it fired. */
export const entryOfTrigger = (trigger: {
  alert_id: string
  best_ask_micro_usd: number
  best_bid_micro_usd: number | null
  caused_at: number
}): LedgerEntry => ({
  key: trigger.alert_id,
  what: [trigger.best_ask_micro_usd, trigger.best_bid_micro_usd, trigger.caused_at].join(' '),
})

/** The triggers that rules must give; changes of an item are in the order of their partition. */
export function expectedTriggers(
  rules: readonly PlainRule[],
  changes: readonly Pick<BookChanged, 'side' | 'provider' | 'item_id' | 'price_micro_usd' | 'seen_at'>[],
): LedgerEntry[] {
  const waiting = Map.groupBy(rules, ({ itemId }) => itemId)
  const rows = new Map<number, Map<string, number>>()
  const fired: LedgerEntry[] = []
  for (const { side, provider, item_id, price_micro_usd: micro, seen_at: caused_at } of changes) {
    const ofItem = waiting.get(item_id)
    if (ofItem === undefined) continue
    const quotes = rows.get(item_id) ?? new Map<string, number>()
    rows.set(item_id, quotes)
    if (micro === null) quotes.delete(`${side}|${provider}`)
    else quotes.set(`${side}|${provider}`, micro)
    const of = (wanted: string) => [...quotes].filter(([key]) => key.startsWith(wanted)).map(([, price]) => price)
    const [asks, bids] = [of('ask'), of('bid')]
    if (asks.length === 0) continue
    const best_ask_micro_usd = Math.min(...asks)
    const best_bid_micro_usd = bids.length === 0 ? null : Math.max(...bids)
    const isMet = (rule: PlainRule) => holds(rule, best_ask_micro_usd, best_bid_micro_usd)
    for (const { id } of ofItem.filter(isMet)) {
      fired.push(entryOfTrigger({ alert_id: id, best_ask_micro_usd, best_bid_micro_usd, caused_at }))
    }
    waiting.set(
      item_id,
      ofItem.filter(rule => !isMet(rule)),
    )
  }
  return fired
}

function holds({ kind, threshold }: PlainRule, ask: number, bid: number | null): boolean {
  const hundredths = BigInt(threshold.replace('.', ''))
  if (kind === 'price_below') return BigInt(ask) < hundredths * 10_000n
  if (kind === 'price_above') return BigInt(ask) > hundredths * 10_000n
  return bid !== null && BigInt(ask - bid) * 10_000n > hundredths * BigInt(ask)
}
