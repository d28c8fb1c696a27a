/**
 * Rebuilds the health of all providers from the verdicts of the log, and replaces what is stored in one write.
 *
 * Runs outside of the role, which goes on. The write is a compare-and-set of the position, as each flush of the role is; so the role
 * finds another position than its own and opens the view again. What rests on records that the log no longer holds is kept as it
 * is. A kill leaves the old view or the new one.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { eventOf } from '#infra/kafka/codec.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { Fenced, writeGuarded } from '#infra/redis/guarded-write.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { readPartitionLog } from '#streams/runner/partition-log.ts'
import {
  assertNoLoss,
  decide,
  holdsAll,
  parsePosition,
  rebuiltPosition,
  type ViewPosition,
} from '#streams/runner/positions.ts'
import type { RebuildTask } from '#streams/runner/view.ts'
import { step } from './step.ts'
import { decodeHealth, encodeHealth, healthKey, healthPositionKey, type StoredHealth } from './table.ts'

/** The result of a rebuild. */
interface RebuiltHealth {
  records: number
  providers: number
  /** Providers that were kept as they are, since the log no longer holds what they rest on. */
  carried: number
}

const NAME = 'provider-health'
const SOURCE = { topic: 'refreshes', partition: 0 } as const
const TRIES = 200
const PAUSE_MS = 10

/** Rebuilds; rejects when the role's writes were quicker at every try. */
export async function rebuildHealth({
  config,
  log,
  onProgress,
  signal,
  acceptLoss,
}: RebuildTask): Promise<RebuiltHealth> {
  const kafka = connectKafka({ config, role: 'rebuild', log })
  const topic = kafka.topicName('refreshes')
  const reader = await openRangeReader(kafka, [topic])
  const redis = await openRedis(config, { name: `${config.namespace}rebuild`, log })
  const ids = openTopicIds(kafka)
  const built = new Map<string, StoredHealth>()
  let records = 0
  const take = (judged: RefreshJudged): void => {
    built.set(judged.provider, step(built.get(judged.provider), judged))
    records += 1
  }
  try {
    onProgress('reading the log')
    const partitionLog = await readPartitionLog({ kafka, reader, ids }, SOURCE, undefined)
    let next = partitionLog.start
    for (let tries = 0; tries < TRIES; tries++) {
      signal.throwIfAborted()
      const stored = await readStored(redis, config.namespace)
      assertNoLoss(NAME, stored.position, partitionLog, acceptLoss)
      const isFit = decide(stored.position, partitionLog).kind === 'resume'
      const to = isFit ? (stored.position?.next ?? 0) : await reader.stableEnd(topic, 0)
      if (to < next) throw new Error('its role has begun again meanwhile: rebuild it once more')
      await reader.read({ topic, partition: 0, from: next, to }, ({ value }) => {
        const found = eventOf(kafka.codec, value)
        if (found?.event === 'RefreshJudged') take(found.value)
      })
      next = to
      const position = rebuiltPosition(stored.position, partitionLog, next, randomUUID())
      const carried = holdsAll(stored.position, partitionLog)
        ? new Map<string, StoredHealth>()
        : notInLog(stored.health, built)
      if (await replace(redis, config.namespace, stored, new Map([...built, ...carried]), position)) {
        return { records, providers: built.size, carried: carried.size }
      }
      await pause(PAUSE_MS)
    }
  } finally {
    await closeRedis(redis)
    await ids.close()
    await reader.close()
  }
  throw new Error('its role wrote it at every try to replace it')
}

interface Stored {
  /** The text of its position. */
  text: string | null
  position: ViewPosition | undefined
  health: ReadonlyMap<string, StoredHealth>
}

async function readStored(redis: Redis, prefix: string): Promise<Stored> {
  const answers = (await redis.multi().get(healthPositionKey(prefix)).hgetall(healthKey(prefix)).exec()) ?? []
  for (const [error] of answers) if (error) throw error
  const [text, texts] = answers.map(([, answer]) => answer) as [string | null, Record<string, string>]
  const health = new Map(Object.entries(texts).map(([provider, row]) => [provider, decodeHealth(row)]))
  return { text, position: parsePosition(text), health }
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
  { text, health }: Stored,
  built: ReadonlyMap<string, StoredHealth>,
  position: ViewPosition,
): Promise<boolean> {
  const key = healthKey(prefix)
  const gone = [...health.keys()].filter(provider => !built.has(provider))
  const rows = [...built].flatMap(([provider, one]) => [provider, encodeHealth(one)])
  try {
    await writeGuarded(redis, {
      guard: healthPositionKey(prefix),
      expected: text,
      value: JSON.stringify(position),
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
