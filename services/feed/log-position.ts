/**
 * How far a stream has delivered the log: an offset per partition, and the lanes that lag behind it.
 *
 * A lane is one provider's changes of one side. Refreshes of several providers lie mixed in a partition and leave when
 * they are whole, so an offset alone does not say what a client has: a lane whose refresh is still buffered lags behind,
 * with offsets of its own. Of a lane, exactly the changes before {@link firstUndelivered} have been delivered. As text a
 * position is opaque, some 40 characters, and bound to its scope by a checksum, so that one of another feed or of another
 * deployment, or a made-up one, is not accepted here.
 */
import { crc32 } from 'node:zlib'
import type { Side } from '#schemas/events/book-changed.ts'

/** Offsets in the log, and for each lane that is not delivered up to them, its own. */
export interface LogPosition {
  /** By partition: the first offset that is not delivered. */
  readonly next: readonly number[]
  /** Lane → the same for its changes, never above `next`. */
  readonly behind: ReadonlyMap<string, readonly number[]>
}

const VERSION = 1
const CHECKSUM_BYTES = 4
const TEXT_MAX = 4_096
const TEXT_FORM = /^[A-Za-z0-9_-]+$/

/** Names one provider's changes of one side. */
export const laneOf = (side: Side, provider: string): string => `${side}|${provider}`

/** The first offset of a lane in a partition that is not delivered. */
export const firstUndelivered = ({ next, behind }: LogPosition, lane: string, partition: number): number =>
  behind.get(lane)?.[partition] ?? next[partition] ?? 0

/** By partition: the offset from which to read all that is not delivered. */
export const readFrom = ({ next, behind }: LogPosition): number[] =>
  next.map((offset, partition) => Math.min(offset, ...[...behind.values()].map(own => own[partition] ?? offset)))

/** Whether a position includes everything that another one does. */
export function covers(one: LogPosition, other: LogPosition): boolean {
  const isPast = (lane: string) =>
    one.next.every((_, partition) => firstUndelivered(one, lane, partition) >= firstUndelivered(other, lane, partition))
  return (
    one.next.every((offset, partition) => offset >= (other.next[partition] ?? 0)) &&
    [...one.behind.keys(), ...other.behind.keys()].every(isPast)
  )
}

/** The position that includes what either of two does. */
export const unionOf = (one: LogPosition, other: LogPosition): LogPosition => merged(one, other, Math.max)

/** The position that includes what both of two do: a reading from there finds all that either lacks. */
export const intersectionOf = (one: LogPosition, other: LogPosition): LogPosition => merged(one, other, Math.min)

function merged(one: LogPosition, other: LogPosition, pick: (a: number, b: number) => number): LogPosition {
  const next = one.next.map((offset, partition) => pick(offset, other.next[partition] ?? 0))
  const behind = new Map<string, readonly number[]>()
  for (const lane of new Set([...one.behind.keys(), ...other.behind.keys()])) {
    const own = next.map((_, partition) =>
      pick(firstUndelivered(one, lane, partition), firstUndelivered(other, lane, partition)),
    )
    if (own.some((offset, partition) => offset !== next[partition])) behind.set(lane, own)
  }
  return { next, behind }
}

/** Records to read to get from a position to a later one. */
export const distance = (from: LogPosition, to: LogPosition): number =>
  readFrom(from).reduce((sum, offset, partition) => sum + Math.max(0, (to.next[partition] ?? 0) - offset), 0)

/** The position of one side alone: what the other side buffers concerns no stream of this one. */
export function ofSide({ next, behind }: LogPosition, side: Side): LogPosition {
  const prefix = laneOf(side, '')
  return { next, behind: new Map([...behind].filter(([lane]) => lane.startsWith(prefix))) }
}

/** Writes a position as an event's id. */
export function encodePosition({ next, behind }: LogPosition, scope: string): string {
  const bytes: number[] = [VERSION, next.length]
  for (const offset of next) pushNumber(bytes, offset)
  for (const [lane, own] of behind) {
    const name = Buffer.from(lane)
    pushNumber(bytes, name.length)
    bytes.push(...name)
    for (const [partition, offset] of next.entries()) pushNumber(bytes, offset - (own[partition] ?? offset))
  }
  const body = Buffer.from(bytes)
  const sum = Buffer.alloc(CHECKSUM_BYTES)
  sum.writeUInt32BE(crc32(body, crc32(scope)))
  return Buffer.concat([body, sum]).toString('base64url')
}

/** Reads what {@link encodePosition} wrote for the same scope and as many partitions; undefined for anything else. */
export function decodePosition(text: string, scope: string, partitions: number): LogPosition | undefined {
  if (text.length > TEXT_MAX || !TEXT_FORM.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64url')
  const body = bytes.subarray(0, -CHECKSUM_BYTES)
  if (body.length < 2 || bytes.readUInt32BE(body.length) !== crc32(body, crc32(scope))) return undefined
  if (body[0] !== VERSION || body[1] !== partitions) return undefined
  const from = { at: 2 }
  const numbers = (): number[] => Array.from({ length: partitions }, () => readNumber(body, from))
  const next = numbers()
  const behind = new Map<string, number[]>()
  while (from.at < body.length) {
    const length = readNumber(body, from)
    const lane = body.toString('utf8', from.at, from.at + length)
    from.at += length
    const lags = numbers()
    behind.set(
      lane,
      next.map((offset, partition) => offset - (lags[partition] ?? 0)),
    )
  }
  return { next, behind }
}

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
