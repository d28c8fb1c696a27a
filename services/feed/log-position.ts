/**
 * How much of a topic a stream has delivered: an offset per partition, and what lags behind it.
 *
 * Refreshes of several providers lie mixed in a partition and are delivered when they are whole, so an offset alone does not say
 * what a client has: a provider's side whose refresh is still open lags behind, with offsets of its own. Of a provider's side, exactly
 * the changes before {@link firstUndelivered} have been delivered. As text a position is opaque and signed, and bound to its scope: one
 * of another feed, of another deployment or made up is not accepted.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'

/** Offsets in the log, and for each provider's side that is not delivered up to them, its own. */
export interface LogPosition {
  /** By partition: the first offset that is not delivered. */
  readonly next: readonly number[]
  /** Provider's side -> the same for its changes, never above `next`. */
  readonly behind: ReadonlyMap<string, readonly number[]>
}

const VERSION = 2
const TAG_BYTES = 12
const TEXT_MAX = 4_096
const TEXT_FORM = /^[A-Za-z0-9_-]+$/

/** Names one provider's changes of one side. */
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

/** The position that includes what either of two does. */
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

export interface EventIds {
  /** The id of an event of a side that leads to a position. */
  write(position: LogPosition, side: FeedSide, kind?: IdKind): string
  /** The position of an id that was written for the same side and kind; undefined for any other text. */
  read(text: string, side: FeedSide, kind?: IdKind): LogPosition | undefined
}

/** Opens the ids of a log, signed with a key that all gateways share; `scope` names the deployment and the topic. */
export function openEventIds(key: string, scope: string, partitions: number): EventIds {
  const tagOf = (body: Buffer, side: FeedSide, kind: IdKind): Buffer =>
    createHmac('sha256', key).update(`${scope}|${side}|${kind}\0`).update(body).digest().subarray(0, TAG_BYTES)
  return {
    write(position, side, kind = 'changes') {
      const body = bytesOf(ofSide(position, side))
      return Buffer.concat([tagOf(body, side, kind), body]).toString('base64url')
    },
    read(text, side, kind = 'changes') {
      if (text.length > TEXT_MAX || !TEXT_FORM.test(text)) return undefined
      const bytes = Buffer.from(text, 'base64url')
      const [tag, body] = [bytes.subarray(0, TAG_BYTES), bytes.subarray(TAG_BYTES)]
      if (tag.length < TAG_BYTES || !timingSafeEqual(tag, tagOf(body, side, kind))) return undefined
      return body[0] === VERSION && body[1] === partitions ? positionIn(body, partitions) : undefined
    },
  }
}

function bytesOf({ next, behind }: LogPosition): Buffer {
  const bytes: number[] = [VERSION, next.length]
  for (const offset of next) pushNumber(bytes, offset)
  for (const [key, own] of behind) {
    const name = Buffer.from(key)
    pushNumber(bytes, name.length)
    bytes.push(...name)
    for (const [partition, offset] of next.entries()) pushNumber(bytes, offset - (own[partition] ?? offset))
  }
  return Buffer.from(bytes)
}

function positionIn(body: Buffer, partitions: number): LogPosition {
  const from = { at: 2 }
  const numbers = (): number[] => Array.from({ length: partitions }, () => readNumber(body, from))
  const next = numbers()
  const behind = new Map<string, number[]>()
  while (from.at < body.length) {
    const length = readNumber(body, from)
    const key = body.toString('utf8', from.at, from.at + length)
    from.at += length
    const lags = numbers()
    behind.set(
      key,
      next.map((offset, partition) => offset - (lags[partition] ?? 0)),
    )
  }
  return { next, behind }
}

/** Seven bits a byte, the lowest first; offsets outgrow 32 bits. */
function pushNumber(bytes: number[], value: number): void {
  let left = value
  for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) + 128)
  bytes.push(left)
}

function readNumber(bytes: Buffer, from: { at: number }): number {
  let value = 0
  for (let weight = 1; from.at < bytes.length; weight *= 128) {
    const byte = bytes[from.at++] as number
    value += (byte % 128) * weight
    if (byte < 128) return value
  }
  return value
}
