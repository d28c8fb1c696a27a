/**
 * The ClickHouse sinks working off a backlog, against direct inserts of the same rows.
 *
 * A change makes two rows in history and up to four in candles; the rate counts rows, since that is what the
 * server takes.
 */
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { ratioEntry } from '../entry.ts'
import { measureSink } from '../sink-turns.ts'
import { type Measured, startYardstick } from '../yardstick.ts'
import type { InsertRequest } from '../yardsticks/direct-insert.ts'

const INSERT = new URL('../yardsticks/direct-insert.ts', import.meta.url)

/** Rows a second into the tables of single changes and daily closes. */
export const history: Bench = {
  name: 'history',
  about: 'rows a second that the history sink inserts, against direct inserts of the same rows',
  run: context => measureInserts(context, 'history'),
}

/** Rows a second into the tables of candles. */
export const candles: Bench = {
  name: 'candles',
  about: 'rows a second that the candles sink inserts, against direct inserts of the same rows',
  run: context => measureInserts(context, 'candles'),
}

async function measureInserts(context: BenchContext, role: 'history' | 'candles'): Promise<Entry[]> {
  const stage = await context.stage()
  const { config } = stage
  const direct = startYardstick(INSERT)
  try {
    const turns = await measureSink(context, stage, {
      role,
      written: process => process.metric('marketlog_clickhouse_rows_total'),
      yardstick: stretch => direct.ask<Measured>('write', { ...stretch, config, sink: role } satisfies InsertRequest),
    })
    return [
      ratioEntry(
        { name: `${role}: rows inserted, against direct inserts of them`, unit: 'rows/s' },
        turns.map(({ rate }) => rate),
      ),
      ratioEntry(
        { name: `${role}: CPU of a row, against inserting it as bytes`, unit: 'us' },
        turns.map(({ cpu }) => cpu),
      ),
    ]
  } finally {
    await direct.ask('remove', config)
    await direct.stop()
  }
}
