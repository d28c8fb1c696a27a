/**
 * The ClickHouse sinks working off a backlog, against direct inserts of the same rows.
 *
 * A change makes two rows in history and four in candles; the rate counts rows that are in the tables afterwards.
 */
import { databaseName } from '#infra/runtime/config.ts'
import { type Measured, startBaseline } from '../baseline.ts'
import type { InsertRequest } from '../baselines/direct-insert.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { ratioEntry } from '../entry.ts'
import { measureSink } from '../sink-turns.ts'
import { ROWS_OF_A_CHANGE, type StoredSink, storedRows } from '../stored-rows.ts'

const INSERT = new URL('../baselines/direct-insert.ts', import.meta.url)

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

async function measureInserts(context: BenchContext, role: StoredSink): Promise<Entry[]> {
  const stage = await context.stage()
  const { config, environment } = stage
  const direct = startBaseline(INSERT)
  try {
    const turns = await measureSink(context, stage, {
      role,
      rowsOfAChange: ROWS_OF_A_CHANGE[role],
      rows: round => storedRows(config.servers.clickhouse, databaseName(config.namespace), role, round),
      baseline: round => direct.ask<Measured>('write', { ...round, environment, sink: role } satisfies InsertRequest),
    })
    return [
      ratioEntry(
        { name: `${role}: rows inserted, against direct inserts of them`, unit: 'rows/s', better: 'higher' },
        turns.map(({ rate }) => rate),
      ),
      ratioEntry(
        { name: `${role}: CPU of a row, against inserting it as bytes`, unit: 'us', better: 'lower' },
        turns.map(({ cpu }) => cpu),
      ),
    ]
  } finally {
    await direct.ask('remove', environment)
    await direct.stop()
  }
}
