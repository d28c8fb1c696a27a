/**
 * Waits until ClickHouse has merged what a measurement has stored.
 *
 * Reads system.merges of one database. A bench stores in seconds what takes a platform weeks, and merges of that much
 * take cores from whatever is measured meanwhile. Invariant: a wait has a limit, after which it throws.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { BenchContext } from './bench.ts'

const LIMIT_MS = 180_000

/** Resolves when nothing of the client's database is being merged. */
export async function settled(context: BenchContext, clickhouse: ClickhouseReader): Promise<void> {
  context.say('waiting for the merges of what was stored at once')
  const merges = `SELECT count() AS n FROM system.merges WHERE database = '${clickhouse.database}'`
  const isSettled = async (): Promise<boolean> => (await clickhouse.rows<{ n: number }>(merges))[0]?.n === 0
  await eventually(isSettled, LIMIT_MS, 'the merges')
}
