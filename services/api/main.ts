/**
 * The role `api`: opens what the routes read, mounts them on the process's HTTP host, and closes it all.
 *
 * Reads Redis, ClickHouse and Postgres; never reads Kafka but for the catalog that the process shares. Counts
 * requests in Redis and writes no view. Invariant: a lost dependency is a 503 on the routes that need it while the others answer on.
 */
import { openObserver } from '#infra/http/reply.ts'
import { makeApp } from '#infra/http/serve-routes.ts'
import { lacksReference } from '#infra/postgres/pool.ts'
import { openLineLog } from '#infra/runtime/log.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { accountGone } from '#services/accounts/reader.ts'
import { apiEndpoints } from './app.ts'
import { openContext } from './context.ts'

const NAME = 'api'

/** Starts the query service; `now` is in milliseconds since the epoch. */
export async function start(context: RoleContext, now: () => number = Date.now): Promise<RunningRole> {
  const log = context.log.child({ role: NAME })
  const { api, guard, isReady, close } = await openContext(context, log, now)
  const accessLog = openLineLog(log)
  const refusalOf = (error: unknown) => (lacksReference(error, 'account_id') ? accountGone() : undefined)
  const observe = openObserver(accessLog.log, context.metrics)
  context.http.mount(['/'], makeApp(apiEndpoints(api), guard, { log, observe, refusalOf }))
  return {
    name: NAME,
    ready: async () => (isReady() ? undefined : 'Redis does not answer'),
    async stop() {
      await close()
      accessLog.close()
    },
  }
}
