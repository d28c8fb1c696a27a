/** Times: an age that ticks, or a moment in the person's zone; UTC when pointed at. */
import { useSyncExternalStore } from 'react'
import { formatAge, formatLocal, formatUtc } from '../values/times.ts'

const TICK_MS = 1_000
const tickers = new Set<() => void>()
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

/** One timer for all ages of the page. */
function onTick(tick: () => void): () => void {
  tickers.add(tick)
  timer ??= setInterval(() => {
    now = Date.now()
    for (const each of tickers) each()
  }, TICK_MS)
  return () => {
    tickers.delete(tick)
    if (tickers.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

/** Milliseconds since the epoch, or the API's text. */
type Time = number | string

const msOf = (at: Time): number => (typeof at === 'number' ? at : Date.parse(at))

const textOf = (ms: number): string => `${formatLocal(ms)} · ${formatUtc(ms)}`

export function Age({ at }: { at: Time }) {
  const ms = msOf(at)
  const text = useSyncExternalStore(onTick, () => formatAge((now - ms) / 1_000))
  return (
    <time dateTime={new Date(ms).toISOString()} title={textOf(ms)}>
      {text}
    </time>
  )
}

export function Moment({ at }: { at: Time }) {
  const ms = msOf(at)
  return (
    <time dateTime={new Date(ms).toISOString()} title={formatUtc(ms)}>
      {formatLocal(ms)}
    </time>
  )
}
