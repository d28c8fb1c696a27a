/**
 * Asks the stores that are reached by TLS once, before roles begin to wait for them.
 *
 * What is refused then, a certificate or a password, is refused for good: the process says so and ends. A store that does not answer is none of
 * that. One without TLS is not asked, so that a role which needs no store loads no client of it.
 */
import { parseClickhouseAddress } from '#infra/runtime/clickhouse-address.ts'
import type { PlatformConfig, ServerAddresses } from '#infra/runtime/config.ts'
import { parsePostgresAddress } from '#infra/runtime/postgres-address.ts'
import { addressOf } from '#infra/runtime/redis-settings.ts'
import { Refused } from '#infra/runtime/refused.ts'

/** Throws what a store refuses; resolves where none does. */
export async function checkStores(config: Pick<PlatformConfig, 'servers' | 'redis'>): Promise<void> {
  const checks = await Promise.all([askDatabases(config.servers), askTables(config.servers), askLiveStore(config)])
  for (const outcome of await Promise.allSettled(checks.flat()))
    if (outcome.status === 'rejected' && outcome.reason instanceof Refused) throw outcome.reason
}

async function askDatabases({ postgres, postgresDirect = postgres }: ServerAddresses): Promise<Promise<void>[]> {
  const urls = new Set([postgres, postgresDirect].filter(url => parsePostgresAddress(url).sslMode !== 'disable'))
  if (urls.size === 0) return []
  const { askPostgres } = await import('#infra/postgres/client.ts')
  return settled([...urls].map(askPostgres))
}

async function askTables({ clickhouse, clickhouseReadOnly }: ServerAddresses): Promise<Promise<void>[]> {
  const urls = new Set([clickhouse, clickhouseReadOnly].filter(url => parseClickhouseAddress(url).isTls))
  if (urls.size === 0) return []
  const { askClickhouse } = await import('#infra/clickhouse/clickhouse.ts')
  return settled([...urls].map(askClickhouse))
}

async function askLiveStore(config: Pick<PlatformConfig, 'servers' | 'redis'>): Promise<Promise<void>[]> {
  if (!addressOf(config).isTls) return []
  const { askRedis } = await import('#infra/redis/certificate.ts')
  return settled([askRedis(config)])
}

/** A check that fails before the others have begun is looked at with them. */
function settled(checks: Promise<void>[]): Promise<void>[] {
  for (const check of checks) check.catch(() => undefined)
  return checks
}
