/**
 * The versions of what is computed of other views, in Redis: written beside the one that is read, then named by the head.
 *
 * Values are written with an expiry. The head is replaced in one step, on the condition that its writer holds the lease; that step
 * lifts the expiry, and gives one to the values of the version before, which its readers still find for a minute. So a writer that was
 * killed leaves nothing, one that was frozen while another took over changes nothing, and a repeat is another version of the same.
 * A large value is cut: as one it would hold other readers of the server up. All keys of a view share one hash tag.
 */
import { randomUUID } from 'node:crypto'
import { writeGuarded, writesOfNames } from '#infra/redis/guarded-write.ts'
import type { Lease } from '#infra/redis/lease.ts'
import type { ViewStore } from '#infra/redis/redis.ts'
import { cached } from '#infra/runtime/async/coalesce.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { parseStored } from '#schemas/values/stored-format.ts'
import { Conflict } from './positions.ts'

/** A snapshot of a view: how its keys are named, and the version of the form in which it is written. */
export interface Snapshot {
  readonly view: string
  readonly name: string
  readonly format: number
}

export interface Computed<Facts extends object = object> {
  /** In the head. */
  facts: Facts
  /** Under keys of their own. */
  values: Readonly<Record<string, Uint8Array>>
}

/** The content of a head. In all forms it names version and values as here. */
export interface ComputedHead<Facts extends object = object> {
  format: number
  version: string
  /** All that the version was computed of reflects what the log held at this moment. */
  as_of: Instant
  /** Value → its bytes. */
  values: Record<string, number>
  facts: Facts
}

export const CHUNK_BYTES = 4 * 2 ** 20
/** How long a replaced version stays. */
export const REPLACED_TTL_MS = 60_000
/** How long values may wait to be named. */
const UNNAMED_TTL_MS = 120_000
/** How long a head counts as the newest for a reader. */
const HEAD_AGE_MS = 1_000

export const computedHeadKey = ({ view, name }: Snapshot, prefix: string): string => `${prefix}{${view}}:${name}:head`

export const computedLeaseKey = (view: string, prefix: string): string => `${prefix}{${view}}:writer`

const chunkKeys = (
  { view, name }: Snapshot,
  { version, values }: Pick<ComputedHead, 'version' | 'values'>,
  value: string,
  prefix: string,
): string[] =>
  Array.from(
    { length: Math.ceil((values[value] ?? 0) / CHUNK_BYTES) },
    (_, chunk) => `${prefix}{${view}}:${name}:${version}:${value}:${chunk}`,
  )

/** Writes a version and has the head name it; throws {@link Conflict}, having changed nothing, where the lease is another's. */
export async function publishVersion(
  { redis, prefix }: ViewStore,
  snapshot: Snapshot,
  lease: Pick<Lease, 'key' | 'token'>,
  { asOf, facts, values }: Computed & { asOf: Instant },
): Promise<void> {
  const key = computedHeadKey(snapshot, prefix)
  const keysOf = (head: ComputedHead): string[] =>
    Object.keys(head.values).flatMap(value => chunkKeys(snapshot, head, value, prefix))
  const text = await redis.get(key)
  const bytes = Object.entries(values).map(([value, { length }]): [string, number] => [value, length])
  const head = {
    format: snapshot.format,
    version: randomUUID(),
    as_of: asOf,
    values: Object.fromEntries(bytes),
    facts,
  } satisfies ComputedHead
  for (const [value, whole] of Object.entries(values)) {
    for (const [i, chunk] of chunkKeys(snapshot, head, value, prefix).entries()) {
      const part = Buffer.from(whole.buffer, whole.byteOffset, whole.length).subarray(i * CHUNK_BYTES)
      await redis.set(chunk, part.subarray(0, CHUNK_BYTES), 'PX', UNNAMED_TTL_MS)
    }
  }
  const { guards, writes } = writesOfNames(key, JSON.stringify(head), {
    named: keysOf(head),
    replaced: text === null ? [] : keysOf(JSON.parse(text)),
    replacedTtlMs: REPLACED_TTL_MS,
  })
  const ownLease = { key: lease.key, expected: lease.token }
  if (!(await writeGuarded(redis, { guards: [ownLease, ...guards], writes })))
    throw new Conflict(`${key} is written by another process`)
}

/**
 * Opens a reader of the newest version, in the form in which it is answered from; undefined before a first one. How old it is, is for the
 * caller to judge. It keeps the version that it read last. The head is read once a second while there are requests, a version once,
 * and requests at one time share a read. Where nothing can be read, the version before is answered, which says how old it is.
 */
export function openComputedReader<Facts extends object, T>(
  store: ViewStore,
  snapshot: Snapshot,
  load: (head: ComputedHead<Facts>, value: (name: string) => Promise<Uint8Array<ArrayBuffer>>) => Promise<T>,
): () => Promise<T | undefined> {
  let last: { version: string; loaded: T } | undefined
  const newest = cached(async () => {
    const { redis, prefix } = store
    // The client would delay the request until it is connected again.
    if (redis.status !== 'ready') throw new Error('Redis is not connected')
    const text = await redis.get(computedHeadKey(snapshot, prefix))
    const head =
      text === null
        ? undefined
        : parseStored<ComputedHead<Facts>>(`${snapshot.view} (${snapshot.name})`, text, {
            [snapshot.format]: (stored: ComputedHead<Facts>) => stored,
          })
    if (head === undefined) last = undefined
    else if (head.version !== last?.version) {
      const loaded = await load(head, name =>
        readValue(redis, head.values[name] ?? 0, chunkKeys(snapshot, head, name, prefix)),
      )
      last = { version: head.version, loaded }
    }
    return last?.loaded
  }, HEAD_AGE_MS)
  return () =>
    newest.get().catch(error => {
      if (last === undefined) throw error
      return last.loaded
    })
}

/** Copies chunk by chunk into memory of its own: at once, 70 MB would keep requests waiting for 50 ms. */
async function readValue(
  redis: ViewStore['redis'],
  bytes: number,
  keys: readonly string[],
): Promise<Uint8Array<ArrayBuffer>> {
  const whole = new Uint8Array(bytes)
  let at = 0
  for (const key of keys) {
    const chunk = await redis.getBuffer(key)
    if (chunk === null) throw new Error(`${key} is gone`)
    whole.set(chunk, at)
    at += chunk.length
  }
  if (at !== bytes) throw new Error('a value is not as long as its head says')
  return whole
}
