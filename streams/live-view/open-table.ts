/**
 * Opens a partition's live table: as it is where it is in this version's form and the log goes on from its position, else rebuilt.
 *
 * Writes the head of a table that was built; deletes the rows of generations that are no longer read, a rebuild's
 * predecessor or one cut short, in bounded steps, so that Redis serves its readers in between. Never touches the generation
 * that the head names, nor any of a rebuild that goes on or begins meanwhile: head, lease and counter are read as of one
 * moment. An opener that another one has overtaken leaves nothing of its own behind, so a table is in Redis once,
 * whichever process stops or takes over meanwhile.
 */
import { Fenced } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { scanKeys } from '#infra/redis/servers.ts'
import type { Position } from '#streams/runner/positions.ts'
import type { Rebuilder } from './rebuild.ts'
import { readHead, writeHead } from './sink.ts'
import {
  generationOf,
  generationsKey,
  headKey,
  isOwnFormat,
  type LiveHead,
  type OwnedHead,
  rebuildKey,
} from './table.ts'
import type { TableId } from './writes.ts'

/** What opening takes. */
interface TableSources {
  redis: Redis
  rebuilder: Pick<Rebuilder, 'rebuild'>
  /** Why the log does not go on from a table's position; undefined where it does. */
  faultOf(stored: Position): Promise<string | undefined>
}

/** An open table. */
interface OpenedTable extends OwnedHead {
  /** Why it was rebuilt; undefined when it was not. */
  rebuiltFor: string | undefined
  /** Keys that had no reader any more. */
  deleted: number
}

/** Opens a table; throws {@link Fenced} when another owner has written its head meanwhile. */
export async function openTable(
  { redis, rebuilder, faultOf }: TableSources,
  table: { partition: number; prefix: string },
): Promise<OpenedTable> {
  const found = await readHead(redis, table)
  const rebuiltFor = await reasonToRebuild(found, faultOf)
  const isUsable = found !== undefined && rebuiltFor === undefined
  const owned = isUsable ? found : await build(redis, rebuilder, table, found?.text ?? null)
  return { ...owned, rebuiltFor, deleted: await deleteLeftovers(redis, table) }
}

async function reasonToRebuild(
  found: OwnedHead | undefined,
  faultOf: TableSources['faultOf'],
): Promise<string | undefined> {
  if (found === undefined) return 'there is none'
  return isOwnFormat(found.head) ? faultOf(found.head) : 'it is in the form of another version'
}

async function build(
  redis: Redis,
  rebuilder: TableSources['rebuilder'],
  table: { partition: number; prefix: string },
  expected: string | null,
): Promise<OwnedHead> {
  const built = await rebuilder.rebuild(table.partition)
  try {
    return await writeHead(redis, table, expected, built)
  } catch (error) {
    // Any other failure leaves open whether the head was written.
    if (error instanceof Fenced) await deleteGeneration(redis, table, built.generation)
    throw error
  }
}

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
async function deleteGeneration(
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
  let deleted = 0
  for await (const keys of scanKeys(redis, `${prefix}{live:${partition}}:*`, KEYS_PER_STEP)) {
    const old = keys.filter(key => {
      const of = generationOf(key, partition, prefix)
      return of !== undefined && isLeft(of)
    })
    if (old.length > 0) deleted += await redis.unlink(...old)
  }
  return deleted
}
