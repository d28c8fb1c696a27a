/**
 * Writes `{health}:*` in Redis.
 *
 * Sole writer. Each flush is one atomic write of the changed providers and the offset that they reflect, on
 * the condition that no other owner has moved that offset; the fold goes on from what is stored, so a kill
 * at any point neither loses nor doubles a verdict. A missing view is restored whole before the sink is open.
 * Memory: one record per provider.
 */
import { writeGuarded } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { step } from './step.ts'
import { decodeHealth, encodeHealth, healthKey, healthNextKey, type StoredHealth } from './table.ts'

/** Opens the sink on a connection that may be shared; `fill` restores a missing view. */
export async function openHealthSink(
  redis: Redis,
  prefix: string,
  metrics: Metrics,
  fill: (sink: PartitionSink) => Promise<void>,
): Promise<PartitionSink> {
  const refreshed = metrics.gauge('marketlog_provider_refreshed_seconds', 'Time of the last applied refresh.', [
    'provider',
    'side',
  ])
  const failures = metrics.gauge('marketlog_provider_failures', 'Refreshes in a row that failed.', ['provider', 'side'])
  const show = (provider: string, { sides }: StoredHealth): void => {
    for (const [side, one] of Object.entries(sides)) {
      if (one.completed_at !== null) refreshed.set({ provider, side }, one.completed_at / 1000)
      failures.set({ provider, side }, one.failures)
    }
  }
  const [hash, nextKey] = [healthKey(prefix), healthNextKey(prefix)]
  const [records, stored] = (await redis.multi().hgetall(hash).get(nextKey).exec()) ?? []
  if (!records || !stored || records[0] || stored[0]) throw records?.[0] ?? stored?.[0] ?? new Error('no answer')
  let next = stored[1] as string | null
  const health = new Map<string, StoredHealth>()
  if (next !== null) {
    for (const [provider, text] of Object.entries(records[1] as Record<string, string>)) {
      const known = decodeHealth(text)
      health.set(provider, known)
      show(provider, known)
    }
  }
  let changed = new Set<string>()
  const sink: PartitionSink = {
    get position() {
      return Number(next ?? 0)
    },
    apply({ event, value }) {
      if (event !== 'RefreshJudged') return OK
      const after = step(health.get(value.provider), value)
      health.set(value.provider, after)
      show(value.provider, after)
      changed.add(value.provider)
      return OK
    },
    async flush(reached) {
      const args = [...changed].flatMap(provider => [provider, encodeHealth(health.get(provider) as StoredHealth)])
      const value = String(reached)
      await writeGuarded(redis, {
        guard: nextKey,
        expected: next,
        value,
        writes: [{ command: 'HSET', key: hash, args }],
      })
      next = value
      changed = new Set()
    },
    isCurrent: async () => (await redis.get(nextKey)) === next,
    close: async () => undefined,
  }
  if (next === null) await fill(sink)
  return sink
}
