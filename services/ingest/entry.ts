/**
 * Judges an entry of a refresh: whether it may be published as an observation, and if not, why.
 *
 * Invariant: what passes fits its Avro schema and converts to micro-dollars within 2^53, so nothing that a provider sends
 * can stop the publisher or a processor after it. Names and phases pass as they are: the book resolves them.
 */
import type { Rate } from '#schemas/values/money.ts'
import type { RawEntry } from './source.ts'

const NAME_MAX_LENGTH = 512
const PHASE_MAX_LENGTH = 64
const URL_MAX_LENGTH = 2_048
const QUANTITY_MAX = 2 ** 31 - 1
const RAW_MAX_LENGTH = 2_000
/** Keeps the sums of a provider's book below 2^53. */
const MICRO_USD_MAX = 2 ** 50

/** The highest price whose micro-dollars at a rate stay exact. */
export function priceMaxAt(rate: Rate): number {
  return Math.min(2 ** 50, Math.floor((MICRO_USD_MAX / 10_000) * rate.approximate))
}

/** Why an entry is rejected: `price_missing`, `url_invalid`; undefined when it passes. */
export function entryFault(entry: RawEntry, priceMax: number): string | undefined {
  const fault = offerFault(entry, priceMax)
  if (fault) return fault
  if (!isAbsent(entry.url) && !isWebAddress(entry.url)) return 'url_invalid'
  return amountFault('quantity', entry.quantity, QUANTITY_MAX)
}

/** Quantity and URL, which sales lack, are not judged. */
export function offerFault(entry: RawEntry, priceMax: number): string | undefined {
  if (typeof entry !== 'object' || entry === null) return 'entry_not_object'
  const { market_hash_name: name, phase, price } = entry
  if (name === undefined || name === null || name === '') return 'name_missing'
  if (!isText(name, NAME_MAX_LENGTH)) return 'name_invalid'
  if (!isAbsent(phase) && !isText(phase, PHASE_MAX_LENGTH)) return 'phase_invalid'
  return amountFault('price', price, priceMax)
}

/** The observed members of an entry without fault; an empty phase or URL counts as none. */
export function judgedEntry(entry: RawEntry) {
  return {
    market_hash_name: entry.market_hash_name as string,
    phase: isAbsent(entry.phase) ? null : (entry.phase as string),
    price: entry.price as number,
    quantity: entry.quantity as number,
    url: isAbsent(entry.url) ? null : (entry.url as string),
  }
}

export function nameOf(entry: RawEntry): string | null {
  const name: unknown = (entry as RawEntry | null | undefined)?.market_hash_name
  return isText(name, NAME_MAX_LENGTH) && name !== '' ? name : null
}

/** A rejected entry as text; NaN and infinities, which JSON lacks, become strings. */
export function rawText(entry: unknown): string {
  const text = JSON.stringify(entry, (_, value) =>
    (typeof value === 'number' && !Number.isFinite(value)) || typeof value === 'bigint' ? String(value) : value,
  )
  return String(text).slice(0, RAW_MAX_LENGTH).toWellFormed()
}

/** Text that Avro and every view can hold: bounded, without NUL and lone surrogates. */
export function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value.length <= maxLength && !value.includes('\0') && value.isWellFormed()
}

export const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === ''

/** An http(s) URL that is safe in a header of a redirect. */
export function isWebAddress(value: unknown): value is string {
  return isText(value, URL_MAX_LENGTH) && /^https?:\/\/[^\s]+$/.test(value)
}

function amountFault(member: 'price' | 'quantity', value: unknown, most: number): string | undefined {
  if (value === undefined || value === null) return `${member}_missing`
  if (typeof value !== 'number' || !Number.isFinite(value)) return `${member}_not_number`
  if (value < 1) return `${member}_not_positive`
  if (!Number.isInteger(value)) return `${member}_not_integer`
  return value > most ? `${member}_too_large` : undefined
}
