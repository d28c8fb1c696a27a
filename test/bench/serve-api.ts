/**
 * The query service over the whole market, for benchmarks of reads.
 *
 * Starts what it rests on first. Invariant: when it resolves the live view holds the market and the service is ready.
 */
import type { RoleProcess } from './role-process.ts'
import type { Stage } from './stage.ts'

const CATCH_UP_LIMIT_MS = 240_000

/** Starts the query service, or hands over the one that runs; `env` is for one that starts. */
export async function serveApi(
  stage: Stage,
  say: (text: string) => void,
  env: Record<string, string> = {},
): Promise<RoleProcess> {
  await stage.role('fx')
  await stage.role('live-view')
  say('the live view is catching up')
  await stage.reached('live-view', 'bookChanges', await stage.ends('bookChanges'), CATCH_UP_LIMIT_MS)
  const api = await stage.role('api', env)
  await api.ready()
  return api
}
