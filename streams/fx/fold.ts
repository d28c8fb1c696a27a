/**
 * Folds published tables of exchange rates into the newest one of each day.
 *
 * Invariant: the latest `as_of` wins, of two equal ones the later in the log. A table from the future is a dead letter.
 */
import type { FxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { timeFault } from '#schemas/values/event-time.ts'
import { parseRate } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK, type Outcome, type ViewRecord } from '#streams/runner/outcome.ts'
import type { DayRates } from './table.ts'

const DAY_MS = 86_400_000

/** Folds a record into the newest tables by day, its number since 1970. */
export function foldRates(days: Map<number, DayRates>, { value, version, appendedAt }: ViewRecord): Outcome {
  const { as_of, rates }: FxRatesPublished = value
  const fault = unstorable(0, as_of) ?? timeFault(as_of, appendedAt)
  if (fault) return { kind: 'deadLetter', ...fault }
  const unusable = Object.entries(rates).find(([, text]) => parseRate(text) === undefined)
  if (unusable || rates.USD !== '1') {
    return { kind: 'deadLetter', reason: 'unusable_rate', detail: unusable?.join(' ') ?? `USD ${rates.USD}` }
  }
  const day = Math.floor(as_of / DAY_MS)
  if (as_of >= (days.get(day)?.as_of ?? 0)) days.set(day, { as_of, rates, version })
  return OK
}
