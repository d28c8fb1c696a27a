/**
 * Folds published tables of exchange rates into the newest rate of each day and currency.
 *
 * Invariant: the latest `as_of` wins, of two equal ones the later in the log, however the log is cut into batches. A table from the future is a dead letter.
 */
import { type Batcher, RowBuffer } from '#infra/clickhouse/batcher.ts'
import type { FxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { timeFault } from '#schemas/values/event-time.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { parseRate } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK, type Outcome, type StreamRecord } from '#streams/runner/outcome.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { type DayRate, fxDays } from './table.ts'

/** Opens the fold of the topic's partition into fx_days; a batch that is folded twice leaves the same table. */
export function openFxFold(batcher: Batcher): RowSink {
  const newest = new Map<string, DayRate>()
  const rows = new RowBuffer(fxDays)
  return {
    apply: record => (record.event === 'FxRatesPublished' ? foldRates(newest, record) : OK),
    flush() {
      for (const rate of newest.values()) rows.add(rate)
      newest.clear()
      return batcher.add([rows])
    },
  }
}

export function foldRates(newest: Map<string, DayRate>, { value, version, appendedAt }: StreamRecord): Outcome {
  const { as_of, rates }: FxRatesPublished = value
  const fault = unstorable(0, as_of) ?? timeFault(as_of, appendedAt)
  if (fault) return { kind: 'deadLetter', ...fault }
  const unusable = Object.entries(rates).find(([, text]) => parseRate(text) === undefined)
  if (unusable || rates.USD !== '1') {
    return { kind: 'deadLetter', reason: 'unusable_rate', detail: unusable?.join(' ') ?? `USD ${rates.USD}` }
  }
  const day = Math.floor(as_of / DAY_MS)
  for (const [currency, rate] of Object.entries(rates)) {
    const key = `${day} ${currency}`
    if (as_of >= (newest.get(key)?.as_of ?? 0)) newest.set(key, { day, currency, rate, as_of, version })
  }
  return OK
}
