/**
 * Writes `{fx}:*` in Redis and fx_days in ClickHouse.
 *
 * Sole writer of both. The days are written first, keyed so that repeats change nothing; then one
 * atomic write holds the current table and the position that both reflect, on the condition that no other owner
 * has moved it; then that of the days is written. A kill in between repeats the days.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import { writeGuarded } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { OK } from '#streams/runner/outcome.ts'
import { parsePosition } from '#streams/runner/positions.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { type FxBatch, foldRates } from './step.ts'
import { type FxCurrent, fxCurrentKey, fxDays, fxPositionKey, writeRates } from './table.ts'

/** Opens the sink on a connection that may be shared. */
export async function openFxSink(redis: Redis, batcher: Batcher, prefix: string): Promise<PartitionSink> {
  const [currentKey, positionKey] = [fxCurrentKey(prefix), fxPositionKey(prefix)]
  const [text, found] = await redis.mget(currentKey, positionKey)
  let stored = found ?? null
  const isThere = typeof text === 'string' && stored !== null
  const batch: FxBatch = { current: isThere ? (JSON.parse(text) as FxCurrent) : undefined, days: new Map() }
  const rows = new RowBuffer(fxDays)
  return {
    position: isThere ? parsePosition(stored) : undefined,
    apply: ({ event, value, appendedAt }) => (event === 'FxRatesPublished' ? foldRates(batch, value, appendedAt) : OK),
    async flush(position) {
      for (const [day, table] of batch.days) writeRates(rows, day, table)
      batch.days.clear()
      await batcher.add([rows])
      const args = batch.current ? [JSON.stringify(batch.current)] : []
      const value = JSON.stringify(position)
      const writes = [{ command: 'SET' as const, key: currentKey, args }]
      await writeGuarded(redis, { guard: positionKey, expected: stored, value, writes })
      stored = value
    },
    isCurrent: async () => (await redis.get(positionKey)) === stored,
    close: async () => undefined,
  }
}
