/**
 * How much of a topic a stream has delivered: an offset per partition, and what lags behind it.
 *
 * Refreshes of several providers lie mixed in a partition and are delivered when they are whole, so an offset alone does not say
 * what a client has: a provider's side whose refresh is still open lags behind, with offsets of its own. Of a provider's side, exactly
 * the changes before {@link firstUndelivered} have been delivered. As text a position is opaque and signed, and bound to its scope: one
 * of another feed, of another deployment or made up is not accepted.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { avsc } from '#infra/kafka/avsc.ts'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'

/** Offsets in the log, and for each provider's side that is not delivered up to them, its own. */
export interface LogPosition {
  /** By partition: the first offset that is not delivered. */
  readonly next: readonly number[]
  /** Provider's side -> the same for its changes, never above `next`. */
  readonly behind: ReadonlyMap<string, readonly number[]>
}

const OFFSETS = { type: 'array', items: 'long' } as const
/** Lags are how far `behind` is below `next`: they are small. */
const STORED = avsc.Type.forSchema({
  type: 'record',
  name: 'Position',
  fields: [
    { name: 'next', type: OFFSETS },
    { name: 'lags', type: { type: 'map', values: OFFSETS } },
  ],
})
/** Another where the bytes mean something else. */
const FORM = 3
const TAG_BYTES = 12
const TEXT_MAX = 4_096
const TEXT_FORM = /^[A-Za-z0-9_-]+$/

export const providerSide = (side: FeedSide, provider: string): string => `${side}|${provider}`

/** The first offset of a provider's side in a partition that is not delivered. */
export const firstUndelivered = ({ next, behind }: LogPosition, key: string, partition: number): number =>
  behind.get(key)?.[partition] ?? next[partition] ?? 0

/** By partition: the offset from which to read all that is not delivered. */
export const readFrom = ({ next, behind }: LogPosition): number[] =>
  next.map((offset, partition) => Math.min(offset, ...[...behind.values()].map(own => own[partition] ?? offset)))

/** Whether a position includes everything that another one does. */
export function covers(one: LogPosition, other: LogPosition): boolean {
  const isPast = (key: string) =>
    one.next.every((_, partition) => firstUndelivered(one, key, partition) >= firstUndelivered(other, key, partition))
  return (
    one.next.every((offset, partition) => offset >= (other.next[partition] ?? 0)) &&
    [...one.behind.keys(), ...other.behind.keys()].every(isPast)
  )
}

export function unionOf(one: LogPosition, other: LogPosition): LogPosition {
  const next = one.next.map((offset, partition) => Math.max(offset, other.next[partition] ?? 0))
  const behind = new Map<string, readonly number[]>()
  for (const key of new Set([...one.behind.keys(), ...other.behind.keys()])) {
    const own = next.map((_, partition) =>
      Math.max(firstUndelivered(one, key, partition), firstUndelivered(other, key, partition)),
    )
    if (own.some((offset, partition) => offset !== next[partition])) behind.set(key, own)
  }
  return { next, behind }
}

/** The position of one side alone: what is open of the other side concerns no stream of this one. */
function ofSide({ next, behind }: LogPosition, side: FeedSide): LogPosition {
  const prefix = providerSide(side, '')
  return { next, behind: new Map([...behind].filter(([key]) => key.startsWith(prefix))) }
}

/** Ids within a snapshot lead to its beginning: what came before its end is not whole. */
export type IdKind = 'changes' | 'snapshot'

export type EventIds = ReturnType<typeof openEventIds>

/** Opens the ids of a log, signed with a key that all gateways share; `scope` names the deployment and the topic. */
export function openEventIds(key: string, scope: string, partitions: number) {
  const tagOf = (body: Buffer, side: FeedSide, kind: IdKind): Buffer =>
    createHmac('sha256', key).update(`${scope}|${side}|${kind}|${FORM}\0`).update(body).digest().subarray(0, TAG_BYTES)
  return {
    write(position: LogPosition, side: FeedSide, kind: IdKind = 'changes'): string {
      const { next, behind } = ofSide(position, side)
      const lags = [...behind].map(([key, own]) => [key, next.map((offset, at) => offset - (own[at] ?? offset))])
      const body = STORED.toBuffer({ next, lags: Object.fromEntries(lags) })
      return Buffer.concat([tagOf(body, side, kind), body]).toString('base64url')
    },
    /** The position of an id that was written for the same side and kind; undefined for any other text. */
    read(text: string, side: FeedSide, kind: IdKind = 'changes'): LogPosition | undefined {
      if (text.length > TEXT_MAX || !TEXT_FORM.test(text)) return undefined
      const bytes = Buffer.from(text, 'base64url')
      const [tag, body] = [bytes.subarray(0, TAG_BYTES), bytes.subarray(TAG_BYTES)]
      if (tag.length < TAG_BYTES || !timingSafeEqual(tag, tagOf(body, side, kind))) return undefined
      const { next, lags }: { next: number[]; lags: Record<string, number[]> } = STORED.fromBuffer(body)
      const ownOf = (lag: readonly number[]) => next.map((offset, at) => offset - (lag[at] ?? 0))
      const behind = new Map(Object.entries(lags).map(([key, lag]) => [key, ownOf(lag)]))
      return next.length === partitions ? { next, behind } : undefined
    },
  }
}
