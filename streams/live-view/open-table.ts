/**
 * Opens a partition's live table: as it is where the log still holds all that it lacks, else rebuilt.
 *
 * Writes the head of a table that was built; deletes rows without readers. Invariant: an opener that another one has
 * overtaken leaves nothing of its own behind, so a table is in Redis once, whichever process stops or takes over meanwhile.
 */
import { Fenced } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { deleteGeneration, deleteLeftovers } from './leftovers.ts'
import type { Rebuilder } from './rebuild.ts'
import { type OwnedHead, readHead, writeHead } from './sink.ts'

/** What opening takes. */
export interface TableSources {
  redis: Redis
  rebuilder: Pick<Rebuilder, 'rebuild'>
  /** Whether the log still holds all that a table lacks from `next` on. */
  isInLog(next: number): Promise<boolean>
}

/** An open table. */
export interface OpenedTable extends OwnedHead {
  /** False when it was rebuilt. */
  isUsable: boolean
  /** Keys that had no reader any more. */
  deleted: number
}

/** Opens a table; throws {@link Fenced} when another owner has written its head meanwhile. */
export async function openTable(
  { redis, rebuilder, isInLog }: TableSources,
  table: { partition: number; prefix: string },
): Promise<OpenedTable> {
  const found = await readHead(redis, table)
  const isUsable = found !== undefined && (await isInLog(found.head.next))
  const owned = isUsable ? found : await build(redis, rebuilder, table, found?.text ?? null)
  return { ...owned, isUsable, deleted: await deleteLeftovers(redis, table) }
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
