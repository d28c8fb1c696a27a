/**
 * The meaning of a recorded refresh: `{provider_feed, currency, refreshed_at, prices}` as JSON.
 *
 * `prices` maps a name to hundredths, to `{price, quantity, phase?, url?}`, or to an array of those. What is no usable price
 * becomes an entry too, to be rejected with its index; only a text that is no such refresh as a whole fails.
 */
import { parseInstant } from '#schemas/values/instant.ts'
import type { RawEntry } from '../../source.ts'

type RecordedText =
  | { kind: 'refresh'; observedAt: number; currency: string; entries: Iterable<RawEntry> }
  | { kind: 'unreadable'; reason: 'bad_json' | 'bad_file'; detail: string }

const REFRESHED_AT = /"refreshed_at"\s*:\s*"([^"]{1,40})"/
/** A JSON string, or a number that JSON lacks and Python writes. */
const STRING_OR_NO_NUMBER = /"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g

/** Reads a recorded refresh; `currency` is taken where the text names none. */
export function readRecordedText(text: string, currency: string): RecordedText {
  const parsed = parseJson(text)
  if ('fault' in parsed) return { kind: 'unreadable', reason: 'bad_json', detail: parsed.fault }
  const file = (parsed.value ?? {}) as { currency?: unknown; refreshed_at?: unknown; prices?: unknown }
  const observedAt = typeof file.refreshed_at === 'string' ? parseInstant(file.refreshed_at) : undefined
  if (observedAt === undefined) return unusable('refreshed_at is no ISO 8601 time')
  const { prices } = file
  if (typeof prices !== 'object' || prices === null || Array.isArray(prices)) return unusable('prices is no object')
  const stated = file.currency ?? currency
  if (typeof stated !== 'string') return unusable('currency is no text')
  return { kind: 'refresh', observedAt, currency: stated.toUpperCase(), entries: entriesOf(prices) }
}

/** The time that the beginning of a text states, so that files are ordered without reading all of each. */
export function statedTime(beginning: string): number | undefined {
  return parseInstant(REFRESHED_AT.exec(beginning)?.[1] ?? '')
}

const unusable = (detail: string): RecordedText => ({ kind: 'unreadable', reason: 'bad_file', detail })

function* entriesOf(prices: object): Generator<RawEntry> {
  for (const [name, value] of Object.entries(prices) as [string, unknown][]) {
    if (Array.isArray(value)) for (const one of value) yield entryOf(name, one)
    else yield entryOf(name, value)
  }
}

function entryOf(name: string, value: unknown): RawEntry {
  if (typeof value !== 'object' || value === null) return { market_hash_name: name, price: value, quantity: 1 }
  const { price, quantity = 1, phase, url } = value as Partial<RawEntry>
  return { market_hash_name: name, phase, price, quantity, url }
}

function parseJson(text: string): { value: unknown } | { fault: string } {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    const mended = text.replace(STRING_OR_NO_NUMBER, found => (found.startsWith('"') ? found : `"${found}"`))
    return mended === text ? { fault: faultOf(error) } : parseJson(mended)
  }
}

const faultOf = (error: unknown): string => (error instanceof Error ? error.message.slice(0, 200) : String(error))
