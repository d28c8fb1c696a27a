/**
 * Decides which rules fire when the book, a rule or the exchange rates change.
 *
 * The same changes in the same order fire the same rules. Invariant: after each call the condition of no waiting rule that was
 * evaluated holds, so a change evaluates only the rules that it moves towards, and costs as much as an item has kinds and
 * currencies plus what fires, however many rules wait.
 */
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { type AlertKind, decisiveNumber, holds, spreadText } from '#schemas/values/alert.ts'
import { type Rate, toDecimal } from '#schemas/values/money.ts'
import { type Best, openItemBook } from './item-book.ts'
import { type EnabledRule, openRuleIndex } from './rule-index.ts'

/** Units of a currency per US dollar, by code; USD is there always. */
export type Rates = ReadonlyMap<string, Rate>

export type TriggerState = ReturnType<typeof openTriggerState>

/** Why rules are evaluated, and the time of that cause. */
type Evaluation = Pick<AlertTriggered, 'cause' | 'caused_at'>

const NOTHING: readonly AlertTriggered[] = []

export const openTriggerState = (rates: Rates) => ({
  book: openItemBook(),
  rules: openRuleIndex(),
  rates,
})

export function changeBook(state: TriggerState, change: BookChanged): readonly AlertTriggered[] {
  const { side, item_id, provider, price_micro_usd, seen_at } = change
  const before = state.book.set(side, item_id, provider, price_micro_usd)
  if (before === undefined || state.rules.groups(item_id).length === 0) return NOTHING
  const now = state.book.best(item_id)
  return fire(state, item_id, { cause: 'book', caused_at: seen_at }, kind => movedTowards(kind, before, now))
}

/** Evaluates a rule that was just enabled: it fires, or waits from now on. */
export function considerRule(state: TriggerState, rule: EnabledRule): AlertTriggered | undefined {
  if (rule.isLive || !state.rules.isCurrent(rule)) return undefined
  const best = state.book.best(rule.itemId)
  const decisive = decisiveNumber(rule.kind, best, state.rates.get(rule.currency))
  if (decisive !== undefined && holds(rule.kind, rule.threshold, decisive)) {
    return triggerOf(rule, best, state.rates, { cause: 'rule', caused_at: rule.changedAt })
  }
  state.rules.add(rule)
  return undefined
}

export function considerRates(
  state: TriggerState,
  itemId: number,
  currencies: ReadonlySet<string>,
  asOf: number,
): readonly AlertTriggered[] {
  return fire(state, itemId, { cause: 'rates', caused_at: asOf }, (_, currency) => currencies.has(currency))
}

/** The currencies whose rates differ between two tables, those that one of them lacks included. */
export function movedCurrencies(before: Rates, now: Rates): Set<string> {
  const codes = new Set([...before.keys(), ...now.keys()])
  return new Set([...codes].filter(code => before.get(code)?.text !== now.get(code)?.text))
}

function fire(
  state: TriggerState,
  itemId: number,
  evaluation: Evaluation,
  isConcerned: (kind: AlertKind, currency: string) => boolean,
): readonly AlertTriggered[] {
  const { rules, rates } = state
  let best: Best | undefined
  let fired: AlertTriggered[] | undefined
  for (const group of rules.groups(itemId)) {
    const { kind, currency } = group
    if (!isConcerned(kind, currency)) continue
    best ??= state.book.best(itemId)
    const decisive = decisiveNumber(kind, best, rates.get(currency))
    if (decisive === undefined) continue
    for (let rule = group.top(); rule !== undefined && holds(kind, rule.threshold, decisive); rule = group.top()) {
      rules.pop(group)
      fired ??= []
      fired.push(triggerOf(rule, best, rates, evaluation))
    }
  }
  return fired ?? NOTHING
}

/** Whether prices went where rules of a kind wait; a price that appears may meet any of them. */
function movedTowards(kind: AlertKind, before: Best, now: Best): boolean {
  if (now.ask === undefined) return false
  if (kind === 'spread_exceeds') return now.ask !== before.ask || now.bid !== before.bid
  if (before.ask === undefined) return true
  return kind === 'price_below' ? now.ask < before.ask : now.ask > before.ask
}

function triggerOf(rule: EnabledRule, best: Best, rates: Rates, evaluation: Evaluation): AlertTriggered {
  const { ask = 0, bid, askProvider = '', bidProvider } = best
  const rate = rates.get(rule.currency)
  const isSpread = rule.kind === 'spread_exceeds'
  return {
    alert_id: rule.id,
    version: rule.version,
    item_id: rule.itemId,
    kind: rule.kind,
    triggered_value: isSpread || rate === undefined ? spreadText(ask, bid ?? 0) : toDecimal(ask, rate),
    triggered_currency: isSpread ? null : rule.currency,
    best_ask_micro_usd: ask,
    best_bid_micro_usd: bid ?? null,
    ask_provider: askProvider,
    bid_provider: bidProvider ?? null,
    ...evaluation,
  }
}
