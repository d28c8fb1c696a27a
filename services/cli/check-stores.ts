/**
 * Asks the stores that are reached by TLS once, before roles begin to wait for them.
 *
 * What is refused then, a certificate or a password, is refused for good: the process says so and ends. A store that does not answer is none of
 * that. One without TLS is not asked, so that a role which needs no store loads no client of it.
 */

import { parseClickhouseAddress } from '#infra/runtime/clickhouse-address.ts'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { parsePostgresAddress } from '#infra/runtime/postgres-address.ts'
import { Refused } from '#infra/runtime/refused.ts'

/** Throws what a store refuses; resolves where none does. */
export async function checkStores({
  postgres,
  postgresDirect = postgres,
  clickhouse,
  clickhouseReadOnly,
}: Pick<ServerAddresses, 'postgres' | 'postgresDirect' | 'clickhouse' | 'clickhouseReadOnly'>): Promise<void> {
  const checks: Promise<void>[] = []
  const databases = new Set([postgres, postgresDirect].filter(url => parsePostgresAddress(url).sslMode !== 'disable'))
  if (databases.size > 0) {
    const { askPostgres } = await import('#infra/postgres/servers.ts')
    for (const url of databases) checks.push(askPostgres(url))
  }
  const tables = new Set([clickhouse, clickhouseReadOnly].filter(url => parseClickhouseAddress(url).isTls))
  if (tables.size > 0) {
    const { askClickhouse } = await import('#infra/clickhouse/clickhouse.ts')
    for (const url of tables) checks.push(askClickhouse(url))
  }
  for (const outcome of await Promise.allSettled(checks))
    if (outcome.status === 'rejected' && outcome.reason instanceof Refused) throw outcome.reason
}
