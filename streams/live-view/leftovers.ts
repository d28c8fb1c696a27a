/**
 * Deletes the rows of generations that are no longer read: a rebuild's predecessor, or one cut short.
 *
 * Walks the partition's keys in bounded steps, so that Redis serves its readers in between. Invariant:
 * the generation that the head names is never touched, nor any of a rebuild that goes on or begins meanwhile. Head,
 * lease and counter are read as of one moment: a rebuild may have switched since the caller read the head.
 */
import type { Redis } from '#infra/redis/redis.ts'
import { generationOf, generationsKey, headKey, type LiveHead, rebuildKey } from '#schemas/views/live-keys.ts'
import type { TableId } from './table-writer.ts'

const KEYS_PER_STEP = 1_000

/** Deletes all generations of a partition but the head's; resolves with the number of keys. */
export async function deleteLeftovers(
  redis: Redis,
  { partition, prefix }: Omit<TableId, 'generation'>,
): Promise<number> {
  const keys = [headKey, rebuildKey, generationsKey].map(keyOf => keyOf(partition, prefix))
  const [head, lease, newest] = await redis.mget(keys)
  if (!head) return 0
  const { generation } = JSON.parse(head) as LiveHead
  const isLeft = (of: number): boolean => of < generation || (of > generation && !lease && of <= Number(newest))
  return deleteWhere(redis, { partition, prefix }, isLeft)
}

/** Deletes the rows of a generation that its builder could not switch to, unless a head names it all the same. */
export async function deleteGeneration(
  redis: Redis,
  { partition, prefix }: Omit<TableId, 'generation'>,
  generation: number,
): Promise<number> {
  // Two openers of one process may have asked for the same build, and the other one was quicker.
  const head = await redis.get(headKey(partition, prefix))
  if (head && (JSON.parse(head) as LiveHead).generation === generation) return 0
  return deleteWhere(redis, { partition, prefix }, of => of === generation)
}

async function deleteWhere(
  redis: Redis,
  { partition, prefix }: Omit<TableId, 'generation'>,
  isLeft: (generation: number) => boolean,
): Promise<number> {
  let cursor = '0'
  let deleted = 0
  do {
    const [next, keys] = await redis.scan(cursor, 'MATCH', `${prefix}{live:${partition}}:*`, 'COUNT', KEYS_PER_STEP)
    const old = keys.filter(key => {
      const of = generationOf(key, partition, prefix)
      return of !== undefined && isLeft(of)
    })
    if (old.length > 0) deleted += await redis.unlink(...old)
    cursor = next
  } while (cursor !== '0')
  return deleted
}
