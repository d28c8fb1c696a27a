/**
 * Versions of a partition of a view in Redis: the head that names the one that is read, the keys of each, and the sink that writes it.
 *
 * All keys of a partition share a hash tag, so one atomic write holds rows and head. Each flush is such a write of the changed rows and the
 * head with the position that they reflect, on the condition that the head is still as this owner left it: rows and position never
 * disagree, and an owner that was paused while another took over, or a build switched, writes nothing. Writing the same batch twice leaves
 * the same rows. Writers: the role that owns the partition, and one build (redis-store.ts).
 */
import { Fenced, type KeyWrite, writeGuarded } from '#infra/redis/guarded-write.ts'
import { scanKeys } from '#infra/redis/servers.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { formatOf } from '#schemas/values/stored-format.ts'
import type { ViewPosition } from './positions.ts'
import type { PartitionSink } from './sink-runner.ts'
import type { FlushCompanion, OwnedHead, RedisPartition, RedisVersion, RedisView, ViewHead } from './view.ts'

const rootOf = (view: RedisView, { partition, prefix }: Pick<RedisPartition, 'partition' | 'prefix'>): string =>
  view.rootOf(partition, prefix)

/** Key of a partition's head, a JSON text of {@link ViewHead}. */
export const headKeyOf = (view: RedisView, of: Pick<RedisPartition, 'partition' | 'prefix'>): string =>
  `${rootOf(view, of)}:head`

/** Key of the counter that names versions. It holds the newest, which is the guard of a build's writes. */
export const newestKeyOf = (view: RedisView, of: Pick<RedisPartition, 'partition' | 'prefix'>): string =>
  `${rootOf(view, of)}:newest`

/** Key of the lease of a build. */
export const buildKeyOf = (
  view: RedisView,
  { partition, prefix }: Pick<RedisPartition, 'partition' | 'prefix'>,
): string => `${prefix}build:${view.rootOf(partition, '')}`

/** Whether a head and its rows are in the form that this process writes: rows of two forms never share a version. */
export const isOfFormat = ({ format }: Pick<RedisView, 'format'>, head: ViewHead): boolean => formatOf(head) === format

/** Reads a partition's head; undefined when there is none. */
export async function readHead(view: RedisView, of: RedisPartition): Promise<OwnedHead | undefined> {
  const text = await of.redis.get(headKeyOf(view, of))
  return text === null ? undefined : { head: JSON.parse(text) as ViewHead, text }
}

/** The head of a version at a position. What follows `next` tells readers whether there is all of it (live-view/reader-scripts.ts). */
export const headAt = (
  { format }: Pick<RedisView, 'format'>,
  version: number,
  { topicId, generation, next, until, fault }: ViewPosition,
  own: object,
): ViewHead => ({
  ...{ format, version, topicId },
  ...(generation && { generation }),
  ...{ next, ...(until !== undefined && { until }), ...(fault !== undefined && { fault }) },
  ...own,
})

/** Opens the sink of a partition whose head is sound, on a connection that may be shared. */
export async function openRedisSink(
  view: RedisView,
  of: RedisPartition,
  found: OwnedHead,
  { metrics, companion }: { metrics: Metrics; companion?: FlushCompanion | undefined },
): Promise<PartitionSink> {
  const guard = headKeyOf(view, of)
  const { version } = found.head
  const fold = await view.open({ ...of, version }, found.head, metrics)
  let owned = found
  return {
    position: found.head,
    apply: fold.apply,
    async flush(position) {
      if (position.next < owned.head.next) throw new Fenced(guard)
      const { writes, own, touched = [] } = fold.take()
      const write = async (beside: readonly KeyWrite[]): Promise<OwnedHead> => {
        const head = headAt(view, version, position, own)
        const text = JSON.stringify(head)
        await writeGuarded(of.redis, { guard, expected: owned.text, value: text, writes: [...writes, ...beside] })
        owned = { head, text }
        return owned
      }
      if (companion) await companion.flush(write, { touched, next: position.next })
      else await write([])
    },
    isCurrent: async () => (await of.redis.get(guard)) === owned.text,
    close: async () => companion?.close(),
  }
}

const KEYS_PER_STEP = 1_000

/** Keys of versions, page by page, and what each is called within its version. */
export async function* versionKeys(
  view: RedisView,
  partitions: readonly RedisPartition[],
): AsyncGenerator<{ key: string; name: string; of: RedisVersion }[], void, void> {
  const [first] = partitions
  if (first === undefined) return
  const roots = new Map(partitions.map(of => [rootOf(view, of), of]))
  for await (const keys of scanKeys(first.redis, `${view.rootOf('*', first.prefix)}:*`, KEYS_PER_STEP)) {
    yield keys.flatMap(key => {
      const [, root = '', version = '', name = ''] = /^(.*?\}):(\d+):(.*)$/.exec(key) ?? []
      const of = roots.get(root)
      return of ? [{ key, name, of: { ...of, version: Number(version) } }] : []
    })
  }
}

/** Deletes the rows of versions, in bounded steps, so that Redis serves its readers in between. */
export async function dropVersions(
  view: RedisView,
  partitions: readonly RedisPartition[],
  isDropped: (of: RedisVersion) => boolean,
): Promise<void> {
  for await (const page of versionKeys(view, partitions)) {
    const dropped = Map.groupBy(
      page.filter(({ of }) => isDropped(of)),
      ({ of }) => of.partition,
    )
    for (const keys of dropped.values()) await partitions[0]?.redis.unlink(...keys.map(({ key }) => key))
  }
}
