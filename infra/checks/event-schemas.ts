/**
 * Holds the event schemas of the code against those that were ever released.
 *
 * Reads the catalogue and schemas.lock.json, every released version of every event; registers nothing.
 * Invariant: FULL_TRANSITIVE, as in the registry: the newest schema reads what every released one wrote,
 * and every released one reads what the newest writes (Avro 1.12, "Schema Resolution", by avsc's resolvers).
 * A change that is not in the lock fails too, so no schema is released by accident.
 */
import avsc from 'avsc'
import type { EventSchema } from '#schemas/events/event.ts'
import { subjectOf } from '#schemas/events/event.ts'

interface LockedSchema {
  version: number
  avro: unknown
}

/** Subject → its released schemas, oldest first. */
export type SchemaLock = Record<string, LockedSchema[]>

interface Finding {
  rule: string
  detail: string
}

/** Every event whose schema is incompatible with a released one, or is not locked. */
export function checkEventSchemas(events: readonly EventSchema<object>[], lock: SchemaLock): Finding[] {
  const bySubject = new Map(events.map(event => [subjectOf(event), event]))
  const vanished = Object.keys(lock)
    .filter(subject => !bySubject.has(subject))
    .map(subject => ({
      rule: 'schema-vanished',
      detail: `${subject} was released and no longer exists; readers may still meet it`,
    }))
  return [...vanished, ...[...bySubject].flatMap(([subject, event]) => checkEvent(subject, event, lock[subject] ?? []))]
}

/** The lock with the newest schemas added; throws when one of them may not be released. */
export function lockEventSchemas(events: readonly EventSchema<object>[], lock: SchemaLock): SchemaLock {
  const broken = checkEventSchemas(events, lock).filter(({ rule }) => rule !== 'schema-unlocked')
  if (broken[0]) throw new Error(broken.map(({ detail }) => detail).join('\n'))
  const entries = events.map(event => {
    const released = lock[subjectOf(event)] ?? []
    const isKnown = isSame(released.at(-1)?.avro, event.avro)
    return [subjectOf(event), isKnown ? released : [...released, { version: event.version, avro: event.avro }]] as const
  })
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}

function checkEvent(subject: string, event: EventSchema<object>, released: readonly LockedSchema[]): Finding[] {
  const last = released.at(-1)
  if (last && isSame(last.avro, event.avro)) return []
  const broken = released.flatMap(old => {
    const reasons = [
      failureOf(`version ${event.version} cannot read version ${old.version}`, event.avro, old.avro),
      failureOf(`version ${old.version} cannot read version ${event.version}`, old.avro, event.avro),
    ]
    return reasons.filter(reason => reason !== undefined)
  })
  if (broken.length > 0) {
    return broken.map(reason => ({
      rule: 'schema-incompatible',
      detail: `${subject}: ${reason}; only fields with defaults come or go`,
    }))
  }
  if (last && event.version <= last.version) {
    return [{ rule: 'schema-version', detail: `${subject} changed: raise its version above ${last.version}` }]
  }
  const detail = `${subject} version ${event.version} is not locked: run \`npm run schemas:lock\``
  return [{ rule: 'schema-unlocked', detail }]
}

function failureOf(what: string, reader: unknown, writer: unknown): string | undefined {
  try {
    typeOf(reader).createResolver(typeOf(writer))
    return undefined
  } catch (error) {
    return `${what} (${(error as Error).message})`
  }
}

const typeOf = (avro: unknown) => avsc.Type.forSchema(structuredClone(avro) as avsc.Schema)

/** Documentation is no part of what is written. */
const isSame = (one: unknown, other: unknown): boolean => one !== undefined && structure(one) === structure(other)

const structure = (avro: unknown): string =>
  JSON.stringify(avro, (member, value) => (member === 'doc' ? undefined : value))
