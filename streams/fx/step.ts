/**
 * Folds published tables of exchange rates into the newest one and the newest of each day.
 *
 * Invariant: the latest `as_of` wins, of two equal ones the later in the log, so a replay ends
 * with the same table. A table from the future is a dead letter and the former one stays in force.
 */
import type { FxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { isFromTheFuture, timeFault } from '#schemas/values/event-time.ts'
import { parseRate } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK, type Outcome } from '#streams/runner/outcome.ts'
import type { FxCurrent } from './table.ts'

/** The fold of a batch of tables. */
export interface FxBatch {
  current: FxCurrent | undefined
  /** Days since 1970-01-01 → that day's newest table. */
  days: Map<number, FxCurrent>
}

const DAY_MS = 86_400_000

/** Folds a table, appended at `appendedAt`, into a batch whose `current` starts as the stored one. */
export function foldRates(batch: FxBatch, { as_of, rates }: FxRatesPublished, appendedAt: number): Outcome {
  const fault = unstorable(0, as_of) ?? timeFault(as_of, appendedAt)
  if (fault) return { kind: 'deadLetter', ...fault }
  const unusable = Object.entries(rates).find(([, text]) => parseRate(text) === undefined)
  if (unusable || rates.USD !== '1') {
    return { kind: 'deadLetter', reason: 'unusable_rate', detail: unusable?.join(' ') ?? `USD ${rates.USD}` }
  }
  const table = { as_of, rates }
  const inForce = batch.current?.as_of ?? 0
  // What is stored may be of a version that accepted times of the future.
  if (as_of >= inForce || isFromTheFuture(inForce, appendedAt)) batch.current = table
  const day = Math.floor(as_of / DAY_MS)
  if (as_of >= (batch.days.get(day)?.as_of ?? 0)) batch.days.set(day, table)
  return OK
}
