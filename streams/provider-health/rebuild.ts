/**
 * Rebuilds the health of all providers from the verdicts of the log, and replaces what is stored in one write.
 *
 * Runs outside of the role, which goes on. The write is a compare-and-set of the position, as each flush of the role is; it leaves
 * the position one record before the one it replaces. So the role finds another position than its own, opens the view again
 * and reads that record. What rests on records that the log no longer holds is kept as it is. A kill leaves the old view or the new one.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { Fenced, writeGuarded } from '#infra/redis/guarded-write.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { decodeNow, decodeSlowly, isDecoded } from '#streams/runner/decoding.ts'
import type { RebuildTask } from '#streams/runner/view.ts'
import { step } from './step.ts'
import { decodeHealth, encodeHealth, healthKey, healthNextKey, type StoredHealth } from './table.ts'

/** The result of a rebuild. */
interface RebuiltHealth {
  records: number
  providers: number
  /** Providers that were kept as they are, since the log no longer holds what they rest on. */
  carried: number
}

const TRIES = 200
const PAUSE_MS = 10

/** Rebuilds; rejects when the role's writes were quicker at every try. */
export async function rebuildHealth({ config, log, onProgress, signal }: RebuildTask): Promise<RebuiltHealth> {
  const kafka = connectKafka({ config, role: 'rebuild', log })
  const topic = kafka.topicName('refreshes')
  const reader = await openRangeReader(kafka, [topic])
  const redis = await openRedis(config, { name: `${config.namespace}rebuild`, log })
  const built = new Map<string, StoredHealth>()
  let records = 0
  const take = (judged: RefreshJudged): void => {
    built.set(judged.provider, step(built.get(judged.provider), judged))
    records += 1
  }
  try {
    onProgress('reading the log')
    const start = await reader.start(topic, 0)
    let next = start
    for (let tries = 0; tries < TRIES; tries++) {
      signal.throwIfAborted()
      const stored = await readStored(redis, config.namespace)
      const to = stored.next === null ? await reader.stableEnd(topic, 0) : Math.max(start, Number(stored.next) - 1)
      if (to < next) throw new Error('its role has begun again meanwhile: rebuild it once more')
      await reader.read({ topic, partition: 0, from: next, to }, async ({ value }) => {
        const decoded = decodeNow(kafka.codec, value) ?? (await decodeSlowly(kafka.codec, value))
        if (isDecoded(decoded) && decoded.event === 'RefreshJudged') take(decoded.value)
      })
      next = to
      const carried = start === 0 ? new Map<string, StoredHealth>() : notInLog(stored.health, built)
      if (await replace(redis, config.namespace, stored, new Map([...built, ...carried]), next)) {
        return { records, providers: built.size, carried: carried.size }
      }
      await pause(PAUSE_MS)
    }
  } finally {
    await closeRedis(redis)
    await reader.close()
  }
  throw new Error('its role wrote it at every try to replace it')
}

interface Stored {
  next: string | null
  health: ReadonlyMap<string, StoredHealth>
}

async function readStored(redis: Redis, prefix: string): Promise<Stored> {
  const answers = (await redis.multi().get(healthNextKey(prefix)).hgetall(healthKey(prefix)).exec()) ?? []
  for (const [error] of answers) if (error) throw error
  const [next, texts] = answers.map(([, answer]) => answer) as [string | null, Record<string, string>]
  return { next, health: new Map(Object.entries(texts).map(([provider, text]) => [provider, decodeHealth(text)])) }
}

/** Stored providers with a side of which the log holds no applied refresh: what came before counts on. */
function notInLog(
  stored: ReadonlyMap<string, StoredHealth>,
  built: ReadonlyMap<string, StoredHealth>,
): Map<string, StoredHealth> {
  const isLacking = ([provider, { sides }]: [string, StoredHealth]): boolean =>
    Object.keys(sides).some(side => built.get(provider)?.sides[side as keyof typeof sides]?.completed_at == null)
  return new Map([...stored].filter(isLacking))
}

/** Writes all providers and removes all others, unless the role has written meanwhile. */
async function replace(
  redis: Redis,
  prefix: string,
  { next, health }: Stored,
  built: ReadonlyMap<string, StoredHealth>,
  reached: number,
): Promise<boolean> {
  const key = healthKey(prefix)
  const gone = [...health.keys()].filter(provider => !built.has(provider))
  const rows = [...built].flatMap(([provider, one]) => [provider, encodeHealth(one)])
  try {
    await writeGuarded(redis, {
      guard: healthNextKey(prefix),
      expected: next,
      value: String(reached),
      writes: [
        { command: 'HDEL', key, args: gone },
        { command: 'HSET', key, args: rows },
      ],
    })
    return true
  } catch (error) {
    if (error instanceof Fenced) return false
    throw error
  }
}
