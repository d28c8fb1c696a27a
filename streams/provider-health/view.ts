import { defineRedisView } from '#streams/runner/define-view.ts'
import type { HealthFold } from './fold.ts'
import { decodeHealth, HEALTH_FORMAT, healthKey, healthRoot } from './table.ts'

/** Health of each provider (market.refreshes) in Redis. */
export const view = defineRedisView({
  name: 'provider-health',
  topics: ['refreshes'],
  format: HEALTH_FORMAT,
  rootOf: (_, prefix) => healthRoot(prefix),
  async open({ redis, prefix, version }, _, metrics) {
    const { openHealthFold } = await import('./fold.ts')
    const key = healthKey(version, prefix)
    const texts = Object.entries(await redis.hgetall(key))
    return openHealthFold(key, new Map(texts.map(([provider, text]) => [provider, decodeHealth(text)])), metrics)
  },
  carriedOver: (built: HealthFold, before: HealthFold) => built.lacking(before.health),
})
