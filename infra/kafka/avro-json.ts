/**
 * Own writer of Avro as JSON: avsc and JSON.stringify took 5.2 to 5.6 us of CPU a record, this 3.5 us (bench `replay`, JSON lines).
 *
 * Writes the same bytes as JSON.stringify of the decoded value, compared with it in test/integration: both forms keep text as
 * UTF-8, so most of an event is copied. Damaged bytes, and numbers that avsc may refuse, end with {@link NotPlain}, and the
 * caller decodes instead. Invariant: a caller that catches it truncates the text to its former length.
 */
import type { AvroType } from '#schemas/events/event.ts'
import type { JsonText } from '../runtime/json-text.ts'

/** These bytes need the decoder: damaged, or beyond what is converted exactly here. */
export class NotPlain extends Error {}

interface AvroCursor {
  bytes: Buffer
  at: number
}

/** Reads one value and writes its JSON; throws {@link NotPlain}. */
export type AvroToJson = (from: AvroCursor, to: JsonText) => void

/** The converter of a type; undefined for a type that needs decoding, a map for the order of its keys. */
export function avroToJson(type: AvroType, named = new Map<string, AvroToJson>()): AvroToJson | undefined {
  if (Array.isArray(type)) return optionalToJson(type, named)
  const { type: kind, ...attributes } = typeof type === 'string' ? { type } : type
  const known = PRIMITIVES[kind] ?? named.get(kind)
  if (known) return known
  const made =
    kind === 'record'
      ? recordToJson(attributes.fields as { name: string; type: AvroType }[], named)
      : kind === 'array'
        ? arrayToJson(attributes.items as AvroType, named)
        : kind === 'enum'
          ? enumToJson(attributes.symbols as string[])
          : undefined
  if (made && typeof attributes.name === 'string') named.set(attributes.name, made)
  return made
}

const PRIMITIVES: Record<string, AvroToJson | undefined> = {
  null: (_, to) => to.ascii(NULL),
  boolean: (from, to) => to.ascii(byte(from) === 0 ? FALSE : TRUE),
  int: (from, to) => {
    const value = long(from)
    if (value !== (value | 0)) throw new NotPlain('beyond 32 bits')
    to.integer(value)
  },
  long: (from, to) => to.integer(long(from)),
  double: (from, to) => to.text(JSON.stringify(slice(from, 8).readDoubleLE(0))),
  string: (from, to) => {
    const length = long(from)
    to.quoted(from.bytes, skip(from, length), length)
  },
  bytes: (from, to) => to.text(`"${slice(from, long(from)).toString('base64')}"`),
}

const [NULL, TRUE, FALSE] = ['null', 'true', 'false'].map(text => Buffer.from(text)) as [Buffer, Buffer, Buffer]
const [OPEN, CLOSE, COMMA] = ['[', ']', ','].map(text => Buffer.from(text)) as [Buffer, Buffer, Buffer]
const END = Buffer.from('}')

function recordToJson(
  fields: readonly { name: string; type: AvroType }[],
  named: Map<string, AvroToJson>,
): AvroToJson | undefined {
  const steps: { name: Buffer; write: AvroToJson }[] = []
  for (const [i, { name, type }] of fields.entries()) {
    const write = avroToJson(type, named)
    if (!write) return undefined
    steps.push({ name: Buffer.from(`${i === 0 ? '{' : ','}${JSON.stringify(name)}:`), write })
  }
  if (steps.length === 0) return undefined
  return (from, to) => {
    for (const { name, write } of steps) {
      to.ascii(name)
      write(from, to)
    }
    to.ascii(END)
  }
}

function enumToJson(symbols: readonly string[]): AvroToJson {
  const texts = symbols.map(symbol => Buffer.from(JSON.stringify(symbol)))
  return (from, to) => {
    const text = texts[long(from)]
    if (!text) throw new NotPlain('no such symbol')
    to.ascii(text)
  }
}

/** A value that may be absent; other unions wrap their values when they are decoded. */
function optionalToJson(types: readonly AvroType[], named: Map<string, AvroToJson>): AvroToJson | undefined {
  const [nothing, type, ...others] = types
  if (nothing !== 'null' || type === undefined || others.length > 0) return undefined
  const write = avroToJson(type, named)
  if (!write) return undefined
  return (from, to) => {
    const branch = long(from)
    if (branch === 0) to.ascii(NULL)
    else if (branch === 1) write(from, to)
    else throw new NotPlain('no such branch')
  }
}

function arrayToJson(items: AvroType, named: Map<string, AvroToJson>): AvroToJson | undefined {
  const write = avroToJson(items, named)
  if (!write) return undefined
  return (from, to) => {
    let isFirst = true
    to.ascii(OPEN)
    for (let count = long(from); count !== 0; count = long(from)) {
      // A negative count is followed by the block's bytes, which are not needed.
      if (count < 0) long(from)
      for (let left = Math.abs(count); left > 0; left--) {
        if (!isFirst) to.ascii(COMMA)
        isFirst = false
        write(from, to)
      }
    }
    to.ascii(CLOSE)
  }
}

/** Moves past some bytes; returns where they begin. */
function skip(from: AvroCursor, length: number): number {
  const { at } = from
  if (length < 0 || at + length > from.bytes.length) throw new NotPlain('cut off')
  from.at += length
  return at
}

function slice(from: AvroCursor, length: number): Buffer {
  const start = skip(from, length)
  return from.bytes.subarray(start, start + length)
}

const byte = (from: AvroCursor): number => from.bytes[skip(from, 1)] as number

/** A zigzag varint of up to 53 bits, as avsc takes it. */
function long(from: AvroCursor): number {
  const { bytes } = from
  let read = bytes[from.at++]
  if (read === undefined) throw new NotPlain('cut off')
  if (read < 0x80) return (read >>> 1) ^ -(read & 1)
  let value = read & 0x7f
  for (let weight = 128; read >= 0x80; weight *= 128) {
    read = bytes[from.at++]
    if (read === undefined) throw new NotPlain('cut off')
    value += (read & 0x7f) * weight
  }
  if (value >= Number.MAX_SAFE_INTEGER) throw new NotPlain('beyond 53 bits')
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2
}
