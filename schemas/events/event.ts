/**
 * Defines event schemas: a name, a version and Avro fields.
 *
 * The subject of an event is `marketlog.<Name>`, one subject per event, so that a topic may carry several events. A new
 * version only adds fields with defaults or removes fields that have them (FULL_TRANSITIVE), and raises `version`.
 */

/** An Avro type as the specification writes it in JSON. */
export type AvroType = string | AvroType[] | { type: string; [attribute: string]: unknown }

/** One field of an event. */
export interface AvroField {
  name: string
  type: AvroType
  doc?: string
  default?: unknown
}

/** An event that crosses a process boundary; `T` is the shape of its decoded value. */
export interface EventSchema<T> {
  readonly name: string
  readonly version: number
  readonly avro: { type: 'record'; name: string; namespace: 'marketlog'; doc: string; fields: AvroField[] }
  /** Carries the type only; never present at run time. */
  readonly shape?: T
}

/** Defines an event; `doc` is its one sentence in the registry. */
export function defineEvent<T extends object>(
  name: string,
  version: number,
  doc: string,
  fields: { [K in keyof T]-?: AvroType | AddedLater },
): EventSchema<T> {
  const list = Object.entries<AvroType | AddedLater>(fields).map(([name, type]) =>
    isAddedLater(type) ? { name, type: nullable(type.addedLater), default: null } : { name, type },
  )
  return { name, version, avro: { type: 'record', name, namespace: 'marketlog', doc, fields: list } }
}

/** A field that records of earlier versions lack. */
interface AddedLater {
  addedLater: AvroType
}

/** A field of a later version: null where a record was written before it. */
export const addedLater = (type: AvroType): AddedLater => ({ addedLater: type })

const isAddedLater = (field: AvroType | AddedLater): field is AddedLater =>
  typeof field === 'object' && 'addedLater' in field

/** A value that may be absent. */
export const nullable = (type: AvroType): AvroType => ['null', type]

/** The subject under which an event's schema is registered. */
export const subjectOf = (event: EventSchema<object>): string => `marketlog.${event.name}`
