/** Times as a person reads them: an age, or the moment in the person's zone, with UTC beside it. */

const MINUTE_S = 60
const HOUR_S = 3_600
const DAY_S = 86_400

/** Whole units, rounded down: `0 s`, `59 s`, `4 min`, `3 h`, `12 d`. A clock that is behind gives `0 s`. */
export function formatAge(seconds: number): string {
  const age = Math.max(0, Math.floor(seconds))
  if (age < MINUTE_S) return `${age} s`
  if (age < HOUR_S) return `${Math.floor(age / MINUTE_S)} min`
  if (age < DAY_S) return `${Math.floor(age / HOUR_S)} h`
  return `${Math.floor(age / DAY_S)} d`
}

/** `2026-11-21 12:04:26 UTC`. */
export const formatUtc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`

/** In the person's zone, or in the one that is named. */
export const formatLocal = (ms: number, timeZone?: string): string =>
  new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium', timeZone }).format(ms)

/** Of an axis: `22 Nov`, or where ticks are less than a day apart `08:04`. */
export const formatTick = (ms: number, isOfDays: boolean, timeZone?: string): string =>
  new Intl.DateTimeFormat(
    'en-GB',
    isOfDays ? { day: 'numeric', month: 'short', timeZone } : { timeStyle: 'short', timeZone },
  ).format(ms)
