/**
 * Instants: milliseconds since the Unix epoch inside the platform, ISO 8601 text in UTC outside.
 *
 * format(parse(text)) is the same instant. The current time is always an argument.
 */

/** Milliseconds since 1970-01-01T00:00:00Z. */
export type Instant = number

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

const FORM = /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i

export function formatInstant(instant: Instant): string {
  return new Date(instant).toISOString()
}

/** Formats the UTC day of an instant as `2026-03-03`. */
export function formatDay(instant: Instant): string {
  return new Date(instant).toISOString().slice(0, 10)
}

/**
 * Parses `YYYY-MM-DD`, `YYYY-MM-DDThh:mm:ss` and full ISO 8601 with fraction and `Z` or an offset, letters in any case;
 * a time without a zone is UTC (DECISIONS.md, "Conventions").
 *
 * Returns undefined for anything else, impossible dates such as 2026-02-30 included.
 */
export function parseInstant(text: string): Instant | undefined {
  const match = FORM.exec(text)
  if (!match) return undefined
  const [year = 0, month = 0, day, hour = 0, minute = 0, second = 0] = [1, 2, 3, 4, 5, 6].map(i =>
    Number(match[i] ?? 0),
  )
  const local = Date.UTC(year, month - 1, day, hour, minute, second)
  const date = new Date(local)
  const isReal =
    date.getUTCMonth() === month - 1 && date.getUTCDate() === day && hour < 24 && minute < 60 && second < 60
  if (!isReal || year < 1) return undefined
  const fraction = match[7] ? Number(`0.${match[7]}`) * 1000 : 0
  const offsetMs = parseOffset(match[8])
  return offsetMs === undefined ? undefined : local + Math.floor(fraction) - offsetMs
}

function parseOffset(zone: string | undefined): number | undefined {
  if (zone === undefined || /^z$/i.test(zone)) return 0
  const hours = Number(zone.slice(1, 3))
  const minutes = Number(zone.slice(3).replace(':', ''))
  if (hours > 14 || minutes > 59) return undefined
  return (zone[0] === '-' ? -1 : 1) * (hours * 60 + minutes) * MINUTE_MS
}
