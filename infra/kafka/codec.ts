/**
 * Events to bytes and back, in the Confluent wire format: a zero byte, the schema id, Avro.
 *
 * Schemas are registered by the set-up step alone (schema-registry.ts); a running role looks its ids up. Encoding and decoding are
 * synchronous once prepared. Invariant: a record written with another
 * version is read through a resolver that is built once per writer id, because the registry client
 * would parse the schema for every message (200 times slower). The registry may be down while
 * roles run: only an id never seen before needs it. Whoever reads the log fetches the ids of what it has read (`learn`) before it
 * hands records over, so that folds are synchronous.
 */
import { type SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'
import { type EventSchema, subjectOf } from '#schemas/events/event.ts'
import { allTopics } from '#schemas/topics.ts'
import { avsc, type Type } from './avsc.ts'
import { askAgain, isNotFound, openRegistry, type RegistryAddress } from './schema-registry.ts'

export interface Decoded {
  /** The event's name, `BookChanged`. */
  event: string
  // biome-ignore lint/suspicious/noExplicitAny: the event's name determines the shape; callers narrow by it.
  value: any
}

export type Codec = ReturnType<typeof openCodec>

/** The bytes are no event of ours; asking again will not help. */
export class DecodeError extends Error {}

/** The event is one of ours that this version does not know, or in a form that it cannot read: a newer version can. */
export class UnknownEvent extends DecodeError {
  readonly event: string
  constructor(event: string) {
    super(`this version does not know the event ${event}, or not in this form`)
    this.event = event
  }
}

interface Reader {
  event: string
  type: Type
  /** Undefined for a writer whose schema is our own. */
  resolver?: unknown
}

const HEADER_BYTES = 5
/** Bytes of no event of ours name ids at random. */
const MISSING_MAX = 10_000
/** Of all events of the platform, whatever their version (schemas/events/event.ts). */
const NAMESPACE = 'marketlog'
const eventsByName = new Map<string, EventSchema<object>>(
  allTopics.flatMap(topic => topic.events).map(event => [event.name, event]),
)

/** The event in some bytes; undefined where there is none of ours, or one that this version does not know. */
export function eventOf(codec: Codec, bytes: Buffer | null): Decoded | undefined {
  if (bytes === null) return undefined
  try {
    return codec.decode(bytes)
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    return undefined
  }
}

export function openCodec(options: { registry: RegistryAddress; namespace: string }) {
  const registry = openRegistry(options.registry)
  const types = new Map<string, Type>()
  const writers = new Map<string, { type: Type; header: Buffer }>()
  const readers = new Map<number, Reader>()
  /** Events of other versions by the id of their schema. */
  const unknown = new Map<number, string>()
  /** Ids that the registry did not know when it was asked last. */
  const missing = new Set<number>()
  const typeOf = ({ name, avro }: EventSchema<object>): Type => {
    const type = types.get(name) ?? avsc.Type.forSchema(avro as avsc.Schema)
    types.set(name, type)
    return type
  }
  return {
    /** Looks the ids of events up; must have resolved before they are encoded. */
    async prepare(events: readonly EventSchema<object>[]): Promise<void> {
      await Promise.all(
        events.map(async event => {
          const subject = options.namespace + subjectOf(event)
          const schema = JSON.stringify(event.avro)
          const id = await askAgain(() => registry.getRegistryIdBySchema(subject, { type: SchemaType.AVRO, schema }))
          const header = Buffer.alloc(HEADER_BYTES)
          header.writeInt32BE(id, 1)
          writers.set(event.name, { type: typeOf(event), header })
          readers.set(id, { event: event.name, type: typeOf(event) })
        }),
      )
    },
    encode<T extends object>(event: EventSchema<T>, value: T): Buffer {
      const writer = writers.get(event.name)
      if (!writer) throw new Error(`${event.name} was not prepared`)
      return write(writer, value)
    },
    /**
     * Throws {@link UnknownEvent} for an event of another version of the platform, DecodeError for an unreadable record, and Error
     * for one that `learn` was not given.
     */
    decode(buffer: Buffer): Decoded {
      const id = schemaIdOf(buffer)
      if (id === undefined) throw new DecodeError('no schema id in front')
      const reader = readers.get(id)
      if (reader) return { event: reader.event, value: read(reader, buffer) }
      const event = unknown.get(id)
      if (event !== undefined) throw new UnknownEvent(event)
      throw missing.has(id)
        ? new DecodeError(`schema id ${id} is unknown`)
        : new Error(`schema id ${id} was not fetched`)
    },
    /** Fetches the schemas that the writers of records used, so that they can be decoded; rejects when the registry does not answer. */
    async learn(records: Iterable<{ value: Buffer | null }>): Promise<void> {
      const ids = new Set<number>()
      for (const { value } of records) {
        const id = value === null ? undefined : schemaIdOf(value)
        if (id !== undefined && !readers.has(id) && !unknown.has(id)) ids.add(id)
      }
      if (missing.size > MISSING_MAX) missing.clear()
      for (const id of ids) {
        const reader = await fetchReader(registry, id, typeOf)
        if (reader instanceof UnknownEvent) unknown.set(id, reader.event)
        else if (reader) readers.set(id, reader)
        else missing.add(id)
      }
    },
  }
}

const schemaIdOf = (buffer: Buffer): number | undefined =>
  buffer.length < HEADER_BYTES || buffer[0] !== 0 ? undefined : buffer.readInt32BE(1)

const scratch = Buffer.allocUnsafeSlow(64 * 1024)

/**
 * Writes behind a header. The shared scratch saves avsc's second pass over values that it cannot
 * size beforehand; a value beyond it takes avsc's own way.
 */
function write(writer: { type: Type; header: Buffer }, value: object): Buffer {
  const end = writer.type.encode(value, scratch, HEADER_BYTES)
  if (end < 0) return Buffer.concat([writer.header, writer.type.toBuffer(value)])
  writer.header.copy(scratch, 0)
  return Buffer.from(scratch.subarray(0, end))
}

function read(reader: Reader, buffer: Buffer): object {
  let result: { value: object; offset: number }
  try {
    result = reader.type.decode(buffer, HEADER_BYTES, reader.resolver as never)
  } catch (error) {
    throw new DecodeError(error instanceof Error ? error.message : String(error))
  }
  if (result.offset !== buffer.length)
    throw new DecodeError(`bytes end at ${buffer.length}, the event at ${result.offset}`)
  return result.value
}

/** The reader of a writer's schema; undefined where the registry has none of ours under the id. */
async function fetchReader(
  registry: SchemaRegistry,
  id: number,
  typeOf: (event: EventSchema<object>) => Type,
): Promise<Reader | UnknownEvent | undefined> {
  const schema = await registry.getSchema(id).catch(error => {
    if (isNotFound(error)) return undefined
    throw error
  })
  const writer = schema as unknown as Type | undefined
  const [namespace, name] = writer?.name?.split('.') ?? []
  if (!writer || namespace !== NAMESPACE || name === undefined) return undefined
  const event = eventsByName.get(name)
  if (!event) return new UnknownEvent(name)
  const own = avsc.Type.forSchema(JSON.parse(JSON.stringify(writer)) as avsc.Schema)
  const type = typeOf(event)
  if (own.equals(type)) return { event: name, type }
  try {
    return { event: name, type, resolver: type.createResolver(own) }
  } catch {
    return new UnknownEvent(name)
  }
}
