import { GROUPS } from '#services/cli/roles.ts'
import type { BenchContext } from './bench.ts'
import type { RoleProcess } from './role-process.ts'
import { writeProviders } from './small-providers.ts'
import type { Stage } from './stage.ts'

const CATCH_UP_LIMIT_MS = 300_000

/** Starts all roles but ingest, whose place the benchmark takes, in processes as `make up` arranges them; resolves with the API's address. */
export async function startWholePlatform(
  context: BenchContext,
  stage: Stage,
  keys: readonly string[],
): Promise<string> {
  await stage.stopAll()
  const env = { MARKETLOG_PROVIDERS: writeProviders(stage, keys) }
  const started: RoleProcess[] = []
  let baseUrl = ''
  for (const group of GROUPS) {
    const { name } = group
    const roles = group.roles.filter(role => role !== 'ingest')
    context.say(`starting ${roles.join(', ')}`)
    const process = await stage.start(name, roles, env)
    started.push(process)
    if (roles.includes('api')) baseUrl = process.baseUrl
  }
  // Only now: a view that is computed of others is ready when they are, and theirs may be a process that starts later.
  for (const process of started) await process.ready(CATCH_UP_LIMIT_MS)
  for (const group of ['live-view', 'history', 'candles']) {
    context.say(`${group} is catching up`)
    await stage.reached(group, 'bookChanges', await stage.ends('bookChanges'), CATCH_UP_LIMIT_MS)
  }
  return baseUrl
}
