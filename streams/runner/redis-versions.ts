/**
 * Versions of a partition of a view in Redis: the head that names the one that is read, the keys of each, and the sink that writes it.
 *
 * All keys of a partition share a hash tag, so one atomic write holds rows and head. Each flush is such a write of the changed rows and the
 * head with the position that they reflect, on the condition that the head is still as this owner left it: rows and position never
 * disagree, and an owner that was paused while another took over, or a build switched, writes nothing. Writing the same batch twice leaves
 * the same rows. Writers: the role that owns the partition, and one build (redis-store.ts).
 */
import { type KeyWrite, writeGuarded } from '#infra/redis/guarded-write.ts'
import { readSlots, scanKeys } from '#infra/redis/servers.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { formatOf } from '#schemas/values/stored-format.ts'
import type { Comparison, DifferentRows } from './build.ts'
import { leaveOut, noFindings } from './findings.ts'
import { Conflict, type ViewPosition } from './positions.ts'
import type { PartitionSink } from './sink-runner.ts'
import type { FlushCompanion, OwnedHead, RedisPartition, RedisVersion, RedisView, ViewHead } from './view.ts'

type PartitionName = Pick<RedisPartition, 'partition' | 'prefix'>

const rootOf = (view: RedisView, { partition, prefix }: PartitionName): string => view.rootOf(partition, prefix)

export const headKeyOf = (view: RedisView, of: PartitionName): string => `${rootOf(view, of)}:head`

/** Key of the counter that names versions. It holds the newest, which is the guard of a build's writes. */
export const newestKeyOf = (view: RedisView, of: PartitionName): string => `${rootOf(view, of)}:newest`

export const buildKeyOf = (view: RedisView, { partition, prefix }: PartitionName): string =>
  `${prefix}build:${view.rootOf(partition, '')}`

/** Whether a head and its rows are in the form that this process writes: rows of two forms never share a version. */
export const isOfFormat = ({ format }: Pick<RedisView, 'format'>, head: ViewHead): boolean => formatOf(head) === format

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
  format,
  version,
  topicId,
  ...(generation && { generation }),
  next,
  ...(until !== undefined && { until }),
  ...(fault !== undefined && { fault }),
  ...own,
})

/** Opens the sink of a partition whose head is sound, on a connection that may be shared. */
export async function openRedisSink(
  view: RedisView,
  of: RedisPartition,
  stored: OwnedHead,
  { metrics, companion }: { metrics: Metrics; companion?: FlushCompanion | undefined },
): Promise<PartitionSink> {
  const guard = headKeyOf(view, of)
  const { version } = stored.head
  const fold = await view.open({ ...of, version }, stored.head, metrics)
  let owned = stored
  return {
    position: stored.head,
    apply: fold.apply,
    async flush(position) {
      if (position.next < owned.head.next) throw new Conflict(`${guard} is at ${owned.head.next} already`)
      const { writes, own, touched = [] } = fold.drain()
      const write = async (beside: readonly KeyWrite[]): Promise<OwnedHead> => {
        const head = headAt(view, version, position, own)
        const text = JSON.stringify(head)
        const isWritten = await writeGuarded(of.redis, {
          guards: [{ key: guard, expected: owned.text }],
          writes: [...writes, ...beside, { command: 'SET', key: guard, args: [text] }],
        })
        if (!isWritten) throw new Conflict(`${guard} was written by another owner`)
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
async function* versionKeys(
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

export interface ComparedVersions {
  found: RedisVersion
  expected: RedisVersion
  leftOut: ReadonlyMap<string, string>
}

const ROWS = `
local answer = {}
for i = 1, 2 do
  local type = redis.call('TYPE', KEYS[i]).ok
  if type == 'hash' then answer[i] = redis.call('HGETALL', KEYS[i])
  elseif type == 'zset' then answer[i] = redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES')
  else answer[i] = {} end
end
return answer`

export function rowsOf(writes: readonly KeyWrite[]): string[] {
  return writes.flatMap(({ command, key, args }) => {
    const name = key.replace(/^.*?\}:\d+:/, '')
    // Of pairs, the row is the first of a hash and the second of a sorted set.
    const isRow = { HSET: (at: number) => at % 2 === 0, ZADD: (at: number) => at % 2 === 1 }[command as string]
    return args.filter((_, at) => isRow?.(at) ?? true).map(row => `${name} ${row}`)
  })
}

export async function compareRows(
  view: RedisView,
  pairs: readonly ComparedVersions[],
  report: (step: string) => void,
): Promise<Comparison> {
  const findings = noFindings()
  const different: DifferentRows = new Map()
  const [first] = pairs
  if (first === undefined) return { findings, different }
  const { redis } = first.found
  const compareKey = async (pair: ComparedVersions, name: string): Promise<void> => {
    const keys = [pair.found, pair.expected].map(of => `${view.rootOf(of.partition, of.prefix)}:${of.version}:${name}`)
    const [found, expected] = ((await redis.eval(ROWS, keys.length, ...keys)) as string[][]).map(pairsOf)
    for (const row of new Set([...(found?.keys() ?? []), ...(expected?.keys() ?? [])])) {
      const reason = pair.leftOut.get(`${name} ${row}`)
      const texts = { found: found?.get(row), expected: expected?.get(row) }
      if (reason !== undefined) leaveOut(findings, reason)
      else if (texts.found !== texts.expected) different.set(`${name} ${row}`, texts)
      else findings.compared += 1
    }
  }
  const slots = await readSlots(redis)
  const seen = new Set<string>()
  const partitions = pairs.map(({ found }) => found)
  const pairOf = new Map(pairs.map(pair => [pair.found.partition, pair]))
  for await (const page of versionKeys(view, partitions)) {
    const compared: Promise<void>[] = []
    for (const { name, of } of page) {
      const pair = pairOf.get(of.partition)
      if (of.version !== pair?.found.version && of.version !== pair?.expected.version) continue
      const key = `${of.partition} ${name}`
      if (pair === undefined || seen.has(key)) continue
      seen.add(key)
      compared.push(compareKey(pair, name))
    }
    await Promise.all(compared)
    report(`comparing ${seen.size.toLocaleString('en')} keys`)
  }
  // A key whose slot moves may not have come.
  if (slots === undefined || slots !== (await readSlots(redis)))
    throw new Error('the Cluster is moving slots: verify the view when that has ended')
  return { findings, different }
}

function pairsOf(rows: readonly string[]): Map<string, string> {
  const pairs = new Map<string, string>()
  for (let at = 0; at + 1 < rows.length; at += 2) pairs.set(rows[at] as string, rows[at + 1] as string)
  return pairs
}
