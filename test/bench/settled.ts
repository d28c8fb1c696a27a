/**
 * Waits until the platform has done what a bench has made it do at once, in seconds instead of weeks.
 *
 * Reads system.merges of one database, and the heads and manifests of the live view. Merges of weeks' worth of rows, and
 * the first snapshots of a market that was loaded a moment ago, take cores from whatever is measured meanwhile.
 * A wait has a limit, after which it throws.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { headKey, type LiveHead, manifestKey, type SnapshotManifest } from '#streams/live-view/table.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { BenchContext } from './bench.ts'
import { withClickhouse } from './bench-platform.ts'
import type { Stage } from './stage.ts'

const LIMIT_MS = 180_000

/** Resolves when nothing of the client's database is being merged. */
export async function settled(context: BenchContext, clickhouse: ClickhouseReader): Promise<void> {
  context.say('waiting for the merges of what was stored at once')
  const merges = `SELECT count() AS n FROM system.merges WHERE database = '${clickhouse.database}'`
  const isSettled = async (): Promise<boolean> => (await clickhouse.rows<{ n: number }>(merges))[0]?.n === 0
  await eventually(isSettled, 'the merges', LIMIT_MS)
}

/**
 * Resolves when the live view has snapshots of the table that it serves and nothing of the stage's database is being
 * merged: a platform as it is hours after its start. The reader of the query service may not look at merges, so
 * this is a writer's question.
 */
export async function standingPlatform(context: BenchContext, stage: Stage): Promise<void> {
  const { config, log } = stage
  context.say('waiting for the first snapshots of the live view')
  const redis = await openRedis(config, { name: 'bench', log })
  const isBuilt = async (): Promise<boolean> => (await unbuilt(redis, config.namespace)).length === 0
  try {
    await eventually(isBuilt, 'the first snapshots', LIMIT_MS)
  } finally {
    await closeRedis(redis)
  }
  await withClickhouse(stage, writer => settled(context, writer))
}

/** The partitions whose manifest is of another table than the one that readers see, or missing. */
async function unbuilt(redis: Redis, prefix: string): Promise<number[]> {
  const partitions = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)
  const texts = await redis.mget(partitions.flatMap(each => [headKey(each, prefix), manifestKey(each, prefix)]))
  return partitions.filter(each => {
    const [head, manifest] = [texts[2 * each], texts[2 * each + 1]]
    if (!head || !manifest) return true
    return (JSON.parse(head) as LiveHead).version !== (JSON.parse(manifest) as SnapshotManifest).tableVersion
  })
}
