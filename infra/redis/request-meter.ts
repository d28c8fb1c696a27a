/**
 * Counts the requests of a subject, the lineage of a key, against its minute and its calendar month.
 *
 * Reads and writes two counters per subject, both in its hash tag. One script reads both and counts in
 * both or in neither, so any number of processes together admit exactly as many requests as the limits allow, and a
 * request that is refused uses up nothing. A minute begins with its first request and ends 60 s later by
 * Redis' own clock; months are UTC. Requests of one key that arrive in one turn of the event loop share
 * calls. Rejects when Redis does not answer: nothing is admitted uncounted.
 */
import type { Allowance } from '#schemas/api/rate-limit.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { type Redis, requireReady } from './redis.ts'

interface RequestLimits {
  perMinute: number
  perMonth: number
}

export interface Metered {
  /** Undefined when admitted, else the limit that it would have exceeded: that one begins again in a second at least. */
  refusedBy: 'minute' | 'month' | undefined
  minute: Allowance
  month: Allowance
  /** Unix time in seconds at which the month ends. */
  resetAt: number
}

export type RequestMeter = ReturnType<typeof openRequestMeter>

interface Batch {
  subject: string
  limits: RequestLimits
  countsInMonth: boolean
  waiting: PromiseWithResolvers<Metered>[]
}

/** The result of a call, with what was left before it. */
interface Counted extends Metered {
  admitted: number
}

/**
 * So many share a call, which is then sent at once: Redis counts them while the next of the turn are read. With one
 * call for all of a turn a process idled for a tenth of its time under full load.
 */
const MOST_SHARED = 16
/**
 * Between two calls of a key, unless {@link MOST_SHARED} wait: at 8,000 requests a second a call of its own for each turn
 * of the event loop cost a request a tenth of its CPU. Who asks alone is counted at once.
 */
const PAUSE_MS = 1
/** A month's counter outlives it for as long as the clocks of two processes may differ. */
const MONTH_KEPT_SECONDS = 86_400

const SCRIPT = `
local wanted, perMinute, perMonth, countsInMonth = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local minute = tonumber(redis.call('GET', KEYS[1]) or '0')
local month = tonumber(redis.call('GET', KEYS[2]) or '0')
local admitted = math.min(wanted, math.max(perMinute - minute, 0))
if countsInMonth then admitted = math.min(admitted, math.max(perMonth - month, 0)) end
if admitted > 0 then
  redis.call('INCRBY', KEYS[1], admitted)
  if minute == 0 then redis.call('PEXPIRE', KEYS[1], ${MINUTE_MS}) end
  if countsInMonth then
    redis.call('INCRBY', KEYS[2], admitted)
    if month == 0 then redis.call('EXPIREAT', KEYS[2], ARGV[5]) end
  end
end
return {admitted, month, redis.call('PTTL', KEYS[1]), minute}`

type Run = (
  ...parts: (string | number)[]
) => Promise<[admitted: number, monthBefore: number, minuteLeftMs: number, minuteBefore: number]>

/** Key of a key's requests of a month (`2026-03`). */
export const monthKey = (subject: string, month: string, prefix = ''): string =>
  `${prefix}{requests:${subject}}:${month}`

export const minuteKey = (subject: string, prefix = ''): string => `${prefix}{requests:${subject}}:minute`

/** Opens the meter of a namespace; `now` is the wall clock in milliseconds. */
export function openRequestMeter(redis: Redis, { prefix, now }: { prefix: string; now: () => number }) {
  redis.defineCommand('meterRequests', { numberOfKeys: 2, lua: SCRIPT })
  const run = (redis as unknown as { meterRequests: Run }).meterRequests.bind(redis)
  let current = monthOf(now())

  async function call({ subject, limits, countsInMonth }: Batch, count: number): Promise<Counted> {
    requireReady(redis)
    const at = now()
    if (at < current.startsAt || at >= current.endsAt) current = monthOf(at)
    const { name, startsAt, endsAt } = current
    const keys = [minuteKey(subject, prefix), monthKey(subject, name, prefix)] as const
    const args = [count, limits.perMinute, limits.perMonth, countsInMonth ? 1 : 0]
    const counts = await run(...keys, ...args, endsAt / 1000 + MONTH_KEPT_SECONDS)
    const [admitted, monthBefore, minuteLeftMs, minuteBefore] = counts
    const month = {
      quota: limits.perMonth,
      windowSeconds: (endsAt - startsAt) / 1000,
      remaining: Math.max(limits.perMonth - monthBefore, 0),
      resetSeconds: Math.max(Math.ceil((endsAt - at) / 1000), 1),
    }
    const minute = {
      quota: limits.perMinute,
      windowSeconds: MINUTE_MS / 1000,
      remaining: Math.max(limits.perMinute - minuteBefore, 0),
      // Of a minute that nothing has begun yet nothing is used.
      resetSeconds: minuteBefore + admitted === 0 ? 0 : Math.max(Math.ceil(minuteLeftMs / 1000), 1),
    }
    const refusedBy = countsInMonth && month.remaining <= admitted ? 'month' : 'minute'
    return { admitted, refusedBy, minute, month, resetAt: endsAt / 1000 }
  }

  const join = openBatches(async batch => {
    try {
      settle(batch, await call(batch, batch.waiting.length))
    } catch (error) {
      for (const { reject } of batch.waiting) reject(error)
    }
  })

  return {
    /** Counts a request if it may pass; one that is exempt from the monthly quota counts in its minute alone. */
    take: (subject: string, limits: RequestLimits, { countsInMonth }: { countsInMonth: boolean }): Promise<Metered> =>
      join({ subject, limits, countsInMonth }),
    /** The remainder of a key; counts nothing. */
    async read(subject: string, limits: RequestLimits): Promise<Metered> {
      const counted = await call({ subject, limits, countsInMonth: false, waiting: [] }, 0)
      return { ...counted, refusedBy: undefined }
    },
    /** Requests of the month that runs, by key in the given order. */
    async monthOf(subjects: readonly string[]): Promise<number[]> {
      requireReady(redis)
      const { name } = monthOf(now())
      // One by one: the counters of different keys need not share a server.
      const counts = await Promise.all(subjects.map(subject => redis.get(monthKey(subject, name, prefix))))
      return counts.map(count => Number(count ?? 0))
    },
  }
}

/** Makes what has a request counted with others of its key. */
function openBatches(send: (batch: Batch) => Promise<void>): (counted: Omit<Batch, 'waiting'>) => Promise<Metered> {
  const open = new Map<string, Batch>()
  const pausing = new Set<string>()

  /** Sends a batch; requests within the pause after it wait for the next one, which is then the larger. */
  function close(name: string, batch: Batch): void {
    if (open.get(name) !== batch) return
    open.delete(name)
    void send(batch)
    if (pausing.has(name)) return
    pausing.add(name)
    setTimeout(() => {
      pausing.delete(name)
      const next = open.get(name)
      if (next) close(name, next)
    }, PAUSE_MS)
  }

  return counted => {
    const { subject, limits, countsInMonth } = counted
    const name = `${subject} ${limits.perMinute} ${limits.perMonth} ${countsInMonth}`
    let batch = open.get(name)
    if (!batch) {
      const opened: Batch = { ...counted, waiting: [] }
      open.set(name, opened)
      if (!pausing.has(name)) setImmediate(() => close(name, opened))
      batch = opened
    }
    const answer = Promise.withResolvers<Metered>()
    batch.waiting.push(answer)
    if (batch.waiting.length === MOST_SHARED) close(name, batch)
    return answer.promise
  }
}

/** Admits the first of a batch and refuses the others. */
function settle({ waiting, countsInMonth }: Batch, { admitted, refusedBy, minute, month, resetAt }: Counted): void {
  const after = (used: number, refused: Metered['refusedBy']): Metered => ({
    refusedBy: refused,
    minute: { ...minute, remaining: minute.remaining - used },
    month: { ...month, remaining: month.remaining - (countsInMonth ? used : 0) },
    resetAt,
  })
  const refusal = after(admitted, refusedBy)
  for (const [i, { resolve }] of waiting.entries()) resolve(i < admitted ? after(i + 1, undefined) : refusal)
}

function monthOf(instant: number) {
  const date = new Date(instant)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  return {
    name: date.toISOString().slice(0, 7),
    startsAt: Date.UTC(year, month, 1),
    endsAt: Date.UTC(year, month + 1, 1),
  }
}
