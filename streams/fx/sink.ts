/**
 * Writes `{fx}:*` in Redis and fx_days in ClickHouse.
 *
 * Sole writer of both. The days are written first, keyed so that repeats change nothing; then one
 * atomic write holds the current table and the offset that both reflect, on the condition that no other owner
 * has moved it. A kill in between repeats the days. A missing view is restored whole before the sink is open.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import { writeGuarded } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { type FxBatch, foldRates } from './step.ts'
import { type FxCurrent, fxCurrentKey, fxDays, fxNextKey, writeRates } from './table.ts'

/** Opens the sink on a connection that may be shared; `fill` restores a missing view. */
export async function openFxSink(
  redis: Redis,
  batcher: Batcher,
  prefix: string,
  fill: (sink: PartitionSink) => Promise<void>,
): Promise<PartitionSink> {
  const [currentKey, nextKey] = [fxCurrentKey(prefix), fxNextKey(prefix)]
  const [text, stored] = await redis.mget(currentKey, nextKey)
  const isWhole = typeof text === 'string' && typeof stored === 'string'
  let next = stored ?? null
  let reflected = isWhole ? Number(stored) : 0
  const batch: FxBatch = { current: isWhole ? (JSON.parse(text) as FxCurrent) : undefined, days: new Map() }
  const rows = new RowBuffer(fxDays)
  const sink: PartitionSink = {
    get position() {
      return reflected
    },
    apply: ({ event, value, appendedAt }) => (event === 'FxRatesPublished' ? foldRates(batch, value, appendedAt) : OK),
    async flush(reached) {
      for (const [day, table] of batch.days) writeRates(rows, day, table)
      batch.days.clear()
      await batcher.add([rows])
      const args = batch.current ? [JSON.stringify(batch.current)] : []
      const value = String(reached)
      await writeGuarded(redis, {
        guard: nextKey,
        expected: next,
        value,
        writes: [{ command: 'SET', key: currentKey, args }],
      })
      next = value
      reflected = reached
    },
    isCurrent: async () => (await redis.get(nextKey)) === next,
    close: async () => undefined,
  }
  if (!isWhole) await fill(sink)
  return sink
}
