/**
 * Defines event schemas: a name, a version and Avro fields, from which the type of the event follows.
 *
 * The subject of an event is `marketlog.<Name>`, one subject per event, so that a topic may carry several events. A new
 * version only adds fields with defaults or removes fields that have them (FULL_TRANSITIVE), and raises `version`.
 */

/** An Avro type as the specification writes it in JSON. */
export type AvroType = string | AvroType[] | { type: string; [attribute: string]: unknown }

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

export type EventValue<E> = E extends EventSchema<infer T> ? T : never

type Primitives = {
  null: null
  boolean: boolean
  int: number
  long: number
  double: number
  string: string
  bytes: Buffer
}

type AvroValue<T> = T extends keyof Primitives
  ? Primitives[T]
  : T extends readonly (infer Branch)[]
    ? AvroValue<Branch>
    : T extends { addedLater: infer Later }
      ? AvroValue<Later> | null
      : T extends { type: 'enum'; symbols: readonly (infer Symbol)[] }
        ? Symbol
        : T extends { type: 'array'; items: infer Items }
          ? AvroValue<Items>[]
          : T extends { type: 'map'; values: infer Values }
            ? Record<string, AvroValue<Values>>
            : T extends { type: 'record'; fields: readonly (infer Field)[] }
              ? { [F in Field as F extends { name: infer Name extends string } ? Name : never]: AvroValue<TypeIn<F>> }
              : never

type TypeIn<Field> = Field extends { type: infer Type } ? Type : never

/** Defines an event; `doc` is its one sentence in the registry. */
export function defineEvent<const Fields extends Readonly<Record<string, AvroType | AddedLater>>>(
  name: string,
  version: number,
  doc: string,
  fields: Fields,
): EventSchema<{ -readonly [Name in keyof Fields]: AvroValue<Fields[Name]> }> {
  const list = Object.entries<AvroType | AddedLater>(fields).map(([name, type]) =>
    isAddedLater(type) ? { name, type: nullable(type.addedLater), default: null } : { name, type },
  )
  return { name, version, avro: { type: 'record', name, namespace: 'marketlog', doc, fields: list } }
}

/** A field that records of earlier versions lack. */
interface AddedLater<Type extends AvroType = AvroType> {
  addedLater: Type
}

/** A field of a later version: null where a record was written before it. */
export const addedLater = <const Type extends AvroType>(type: Type): AddedLater<Type> => ({ addedLater: type })

const isAddedLater = (field: AvroType | AddedLater): field is AddedLater =>
  typeof field === 'object' && 'addedLater' in field

export const nullable = <const Type extends AvroType>(type: Type): ['null', Type] => ['null', type]

/** The subject under which an event's schema is registered. */
export const subjectOf = (event: EventSchema<object>): string => `marketlog.${event.name}`
