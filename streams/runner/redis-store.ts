/**
 * Versions of a view in Redis, partition by partition (redis-versions.ts).
 *
 * Writes rows of versions that no head names. The counter that named a version is the guard of its writes, so a build that another one has
 * overtaken stops. Partitions switch one after the other: each by a compare-and-set of its head, whose role finds another head than its own
 * at its next flush and goes on from there. Invariant: a version that is switched to reflects no less of the log than the one before it.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type KeyWrite, nextVersion, writeGuarded } from '#infra/redis/guarded-write.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import {
  type BuildParts,
  type BuildSource,
  type Filling,
  foldInto,
  sweep,
  type VersionStore,
  type Versions,
} from './build.ts'
import { CAME_MEANWHILE, EXPIRED } from './findings.ts'
import { Conflict, decide, holdsAll, readPartitionLog, rebuiltPosition, sourcesOf } from './positions.ts'
import {
  buildKeyOf,
  type ComparedVersions,
  compareRows,
  dropVersions,
  headAt,
  headKeyOf,
  isOfFormat,
  newestKeyOf,
  readHead,
  rowsOf,
} from './redis-versions.ts'
import type { RedisFold, RedisPartition, RedisVersion, RedisView, ViewHead } from './view.ts'

interface NewPartition {
  of: RedisVersion
  fold: RedisFold
  /** The view's own members of its head. */
  own: object
}

const SWITCH_TRIES = 200
const SWITCH_PAUSE_MS = 10

export const redisVersions = (
  view: RedisView,
  { namespace: prefix }: PlatformConfig,
  partitions: readonly number[] = sourcesOf(view).map(({ partition }) => partition),
): Versions => ({
  view,
  baseTopics: view.base?.topics ?? [],
  leaseKeys: partitions.map(partition => buildKeyOf(view, { partition, prefix })),
  openStore: parts => openRedisStore(view, parts, partitions),
})

interface Work {
  view: RedisView
  parts: BuildParts
  /** By partition: what was read first, and the newest version that was named before. */
  before: Map<number, { of: RedisPartition; head: ViewHead | undefined; newest: number }>
  created: Map<number, NewPartition>
}

function openRedisStore(view: RedisView, parts: BuildParts, partitions: readonly number[]): VersionStore {
  const work: Work = { view, parts, before: new Map(), created: new Map() }
  const { before, created } = work
  const { base } = view
  return {
    readSources: async isMissingOnly =>
      (await Promise.all(partitions.map(each => readSource(work, each, isMissingOnly)))).flat(),
    async create() {
      for (const { of } of before.values()) {
        const next = { ...of, version: await nextVersion(of.redis, newestKeyOf(view, of)) }
        created.set(of.partition, { of: next, fold: await view.open(next, undefined, parts.metrics), own: {} })
      }
    },
    async open(source) {
      const into = newOf(work, source)
      return { apply: into.fold.apply, flush: () => flush(work, into) }
    },
    ...(base && { fillFromBase: (onPage: () => void) => fill(work, base, onPage) }),
    async switchTo(filling) {
      for (const each of filling.sources.values()) filling.carried += await switchPartition(work, filling, each)
    },
    dropNew: () => drop(work, of => of.version === created.get(of.partition)?.of.version),
    dropOthers: () =>
      drop(work, of => of.version <= (created.get(of.partition)?.of.version ?? before.get(of.partition)?.newest ?? 0)),
    async readPositions() {
      const heads = await Promise.all([...before.values()].map(({ of }) => headAsRead(work, of)))
      const byPartition = new Map([...before.keys()].map((partition, at) => [partition, heads[at]]))
      return ({ partition }) => byPartition.get(partition)
    },
    async compare(filling, report) {
      const versions: ComparedVersions[] = []
      for (const each of filling.sources.values()) {
        const { of } = newOf(work, each)
        const head = await headAsRead(work, of)
        const leftOut = await leftOutOf(work, each, head)
        versions.push({ found: { ...of, version: head.version }, expected: of, leftOut })
      }
      return compareRows(view, versions, report)
    },
    close: async () => undefined,
  }
}

function newOf({ created }: Work, { source: { partition } }: Pick<BuildSource, 'source'>): NewPartition {
  const version = created.get(partition)
  if (version === undefined) throw new Error(`no version of partition ${partition} was made`)
  return version
}

async function headAsRead({ view, before }: Work, of: RedisPartition): Promise<ViewHead> {
  const head = (await readHead(view, of))?.head
  if (head === undefined || head.version !== before.get(of.partition)?.head?.version)
    throw new Conflict(`another version of ${view.name} is read now`)
  return head
}

async function readSource(work: Work, partition: number, isMissingOnly: boolean): Promise<BuildSource[]> {
  const { view, parts, before } = work
  const { redis, prefix, reader, kafka } = parts
  const [topic] = view.topics
  if (topic === undefined) return []
  const of = { redis, prefix, partition }
  const source = { topic, partition }
  const head = (await readHead(view, of))?.head
  const newest = Number((await redis.get(newestKeyOf(view, of))) ?? 0)
  // Who builds what is missing has seen that the log does not go on from the head, and waited for it.
  const log = await readPartitionLog(parts, source, isMissingOnly ? undefined : head)
  const hasRows = head !== undefined && isOfFormat(view, head)
  if (isMissingOnly && hasRows && (view.base === undefined || decide(head, log).kind === 'resume')) return []
  before.set(partition, { of, head, newest })
  const from = view.base ? await reader.stableEnd(kafka.topicName(topic), partition) : log.start
  return [{ source, stored: head, hasRows, log, position: rebuiltPosition(head, log, from) }]
}

async function write({ view, parts }: Work, { of }: NewPartition, writes: readonly KeyWrite[]): Promise<void> {
  const guards = [{ key: newestKeyOf(view, of), expected: String(of.version) }]
  if (writes.length > 0 && !(await writeGuarded(parts.redis, { guards, writes })))
    throw new Conflict(`another version of partition ${of.partition} of ${view.name} is being built`)
}

async function flush(work: Work, into: NewPartition): Promise<void> {
  const { writes, own } = into.fold.drain()
  into.own = own
  await write(work, into, writes)
}

async function fill(work: Work, base: NonNullable<RedisView['base']>, onPage: () => void): Promise<void> {
  const all = [...work.created.values()]
  await base.fill(work.parts, new Map(all.map(({ of, fold }) => [of.partition, fold])), async () => {
    onPage()
    await Promise.all(all.map(each => flush(work, each)))
  })
}

async function drop({ view, before }: Work, isDropped: (of: RedisVersion) => boolean): Promise<void> {
  const all = [...before.values()].map(({ of }) => of)
  const read = new Map<number, number | undefined>()
  for (const of of all) read.set(of.partition, (await readHead(view, of))?.head.version)
  await dropVersions(view, all, of => of.version !== read.get(of.partition) && isDropped(of))
}

/** Tries until the head is as it was read and reflects no more than the new version does; resolves with the rows carried over. */
async function switchPartition(work: Work, filling: Filling, each: BuildSource): Promise<number> {
  const { view, parts } = work
  const into = newOf(work, each)
  const { of } = into
  const isFaulty = decide(each.stored, each.log).kind === 'stop'
  await flush(work, into)
  for (let tries = 0; tries < SWITCH_TRIES; tries++) {
    const read = await readHead(view, of)
    if (read && read.head.version > of.version) break
    const isFollowed = read?.head.topicId === each.position.topicId && !isFaulty
    const isBehind = (): boolean => isFollowed && read.head.next > each.position.next
    if (isBehind()) await sweep(filling, { only: each })
    if (!isBehind()) {
      const carried = read ? await carryOver(work, each, read.head) : []
      await write(work, into, carried)
      const own = isFollowed && isOfFormat(view, read.head) ? view.succeed?.(into.own, read.head) : undefined
      const key = headKeyOf(view, of)
      const guards = [
        { key, expected: read?.text ?? null },
        { key: newestKeyOf(view, of), expected: String(of.version) },
      ]
      const text = JSON.stringify(headAt(view, of.version, each.position, own ?? into.own))
      if (await writeGuarded(parts.redis, { guards, writes: [{ command: 'SET', key, args: [text] }] }))
        return rowsOf(carried).length
    }
    await pause(SWITCH_PAUSE_MS)
  }
  throw new Conflict(`partition ${of.partition} of ${view.name} was built by another, or its head never rested`)
}

/** Rows of the version that is read which rest on expired records, as they are at the position of the new one. */
async function carryOver(work: Work, each: BuildSource, head: ViewHead): Promise<KeyWrite[]> {
  const { view, parts } = work
  if (view.carriedOver === undefined || !isOfFormat(view, head) || holdsAll(head, each.log)) return []
  const { of, fold } = newOf(work, each)
  const stored = await view.open({ ...of, version: head.version }, head, parts.metrics)
  const { source, position } = each
  if (head.topicId === position.topicId)
    await foldInto(parts, { source, position: { ...position, next: head.next } }, position.next, stored)
  return view.carriedOver(fold, stored)
}

async function leftOutOf(work: Work, each: BuildSource, head: ViewHead): Promise<Map<string, string>> {
  const { view, parts } = work
  const { source, stored, position } = each
  const leftOut = new Map<string, string>()
  for (const row of rowsOf(await carryOver(work, each, head))) leftOut.set(row, EXPIRED)
  // What the base has beyond the position of the view.
  if (view.base && stored && stored.next < position.next) {
    const ahead = await view.open(newOf(work, each).of, undefined, parts.metrics)
    await foldInto(parts, { source, position: { ...position, next: stored.next } }, position.next, ahead)
    for (const row of rowsOf(ahead.drain().writes)) leftOut.set(row, CAME_MEANWHILE)
  }
  return leftOut
}
