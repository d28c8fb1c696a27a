/** The roles that a benchmark needs over the whole market, and when they have done what it has made them do at once, in seconds instead of weeks. */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { GROUPS } from '#services/cli/roles.ts'
import { headKey, type LiveHead, manifestKey, type SnapshotManifest } from '#streams/live-view/table.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { BenchContext } from './bench.ts'
import type { BenchRole } from './bench-platform.ts'
import { writeProviders } from './market-load.ts'
import type { Stage } from './stage.ts'

const LIMIT_MS = 300_000

/** Starts the query service over the whole market, and what it rests on; resolves with it and its address. `env` is for one that starts. */
export async function serveApi(
  { say }: BenchContext,
  stage: Stage,
  env: Record<string, string> = {},
): Promise<BenchRole> {
  await stage.role('fx')
  await stage.role('live-view')
  say('the live view is catching up')
  await stage.caughtUp(['live-view'])
  const api = await stage.role('api', env)
  await api.ready()
  return api
}

/** Starts all roles but ingest, whose place the benchmark takes, in processes as `make up` arranges them; resolves with the API's address. */
export async function startWholePlatform(
  { say }: BenchContext,
  stage: Stage,
  keys: readonly string[],
): Promise<string> {
  await stage.stop()
  const env = { MARKETLOG_PROVIDERS: writeProviders(stage, keys) }
  const started: BenchRole[] = []
  let url = ''
  for (const group of GROUPS) {
    const roles = group.roles.filter(role => role !== 'ingest')
    say(`starting ${roles.join(', ')}`)
    const process = await stage.start(group.name, roles, env)
    started.push(process)
    if (roles.includes('api')) url = process.url
  }
  // Only now: a view that is computed of others is ready when they are, and theirs may be a process that starts later.
  for (const process of started) await process.ready(LIMIT_MS)
  say('the views are catching up')
  await stage.caughtUp(['live-view', 'history', 'candles'])
  return url
}

/**
 * Resolves when nothing of the client's database is being merged: merges of weeks' worth of rows take cores from whatever is measured
 * meanwhile. The reader of the query service may not look at merges, so this is a writer's question.
 */
export async function settled({ say }: BenchContext, clickhouse: ClickhouseReader): Promise<void> {
  say('waiting for the merges of what was stored at once')
  const merges = `SELECT count() AS n FROM system.merges WHERE database = '${clickhouse.database}'`
  const isSettled = async (): Promise<boolean> => (await clickhouse.rows<{ n: number }>(merges))[0]?.n === 0
  await eventually(isSettled, 'the merges', LIMIT_MS)
}

/** Resolves when the live view has snapshots of the table that it serves and nothing is being merged: a platform as it is hours after its start. */
export async function atRest(context: BenchContext, stage: Stage): Promise<void> {
  context.say('waiting for the first snapshots of the live view')
  const redis = await stage.openRedis()
  const partitions = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)
  const keys = partitions.flatMap(each => [headKey(each, stage.namespace), manifestKey(each, stage.namespace)])
  const isBuilt = async (): Promise<boolean> => {
    const texts = await redis.mget(keys)
    return partitions.every(each => {
      const [head, manifest] = [texts[2 * each], texts[2 * each + 1]]
      if (!head || !manifest) return false
      return (JSON.parse(head) as LiveHead).version === (JSON.parse(manifest) as SnapshotManifest).tableVersion
    })
  }
  await eventually(isBuilt, 'the first snapshots', LIMIT_MS)
  await settled(context, stage.openTables())
}
