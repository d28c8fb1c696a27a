/**
 * Writes `{health}:*` in Redis.
 *
 * Sole writer. Each flush is one atomic write of the changed providers and the position that they reflect, on
 * the condition that no other owner has moved it; the fold goes on from what is stored, so a kill
 * at any point neither loses nor doubles a verdict.
 * Memory: one record per provider.
 */
import { writeGuarded } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { OK } from '#streams/runner/outcome.ts'
import { parsePosition } from '#streams/runner/positions.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { step } from './step.ts'
import { decodeHealth, encodeHealth, healthKey, healthPositionKey, type StoredHealth } from './table.ts'

/** Opens the sink on a connection that may be shared. */
export async function openHealthSink(redis: Redis, prefix: string, metrics: Metrics): Promise<PartitionSink> {
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
  const [hash, positionKey] = [healthKey(prefix), healthPositionKey(prefix)]
  const [records, found] = (await redis.multi().hgetall(hash).get(positionKey).exec()) ?? []
  if (!records || !found || records[0] || found[0]) throw records?.[0] ?? found?.[0] ?? new Error('no answer')
  let stored = found[1] as string | null
  const health = new Map<string, StoredHealth>()
  if (stored !== null) {
    for (const [provider, text] of Object.entries(records[1] as Record<string, string>)) {
      const known = decodeHealth(text)
      health.set(provider, known)
      show(provider, known)
    }
  }
  let changed = new Set<string>()
  return {
    position: parsePosition(stored),
    apply({ event, value }) {
      if (event !== 'RefreshJudged') return OK
      const after = step(health.get(value.provider), value)
      health.set(value.provider, after)
      show(value.provider, after)
      changed.add(value.provider)
      return OK
    },
    async flush(position) {
      const args = [...changed].flatMap(provider => [provider, encodeHealth(health.get(provider) as StoredHealth)])
      const value = JSON.stringify(position)
      const writes = [{ command: 'HSET' as const, key: hash, args }]
      await writeGuarded(redis, { guard: positionKey, expected: stored, value, writes })
      stored = value
      changed = new Set()
    },
    isCurrent: async () => (await redis.get(positionKey)) === stored,
    close: async () => undefined,
  }
}
