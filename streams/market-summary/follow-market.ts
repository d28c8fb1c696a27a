/**
 * Keeps the board: seeded from the live view, then following market.book-changes.
 *
 * Reads Redis and Kafka without a group, since its state is in memory and every start reads it again. Invariant: the
 * board is given out only after all that was in the log when following began has been applied.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Decoded } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type FollowedRecord, follow } from '#infra/kafka/follower.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { Log } from '#infra/runtime/log.ts'
import { topics } from '#schemas/topics.ts'
import { decodeNow, decodeSlowly, isDecoded } from '#streams/runner/decoding.ts'
import type { Outcome } from '#streams/runner/outcome.ts'
import type { Board } from './board.ts'
import { seedBoard } from './seed.ts'

const SEED_AGAIN_MS = 1_000

/** What following needs. */
export interface MarketFollowing {
  kafka: KafkaConnection
  redis: Redis
  prefix: string
  log: Log
  signal: AbortSignal
}

/** Resolves when the board shows the present market, and keeps following; `lost` rejects when the log is lost. */
export async function followMarket(
  board: Board,
  { kafka, redis, prefix, log, signal }: MarketFollowing,
): Promise<{ lost: Promise<void> } | undefined> {
  await kafka.codec.prepare([...topics.bookChanges.events])
  const startedAt = performance.now()
  let positions = await seedBoard(redis, prefix, board)
  for (; !positions && !signal.aborted; positions = await seedBoard(redis, prefix, board)) {
    await pause(SEED_AGAIN_MS, undefined, { signal }).catch(() => undefined)
  }
  if (!positions || signal.aborted) return undefined
  const from = positions
  const apply = async (records: FollowedRecord[]): Promise<void> => {
    for (const record of records) {
      const { value } = record
      const decoded = decodeNow(kafka.codec, value) ?? (await decodeSlowly(kafka.codec, value))
      applyDecoded(board, record, decoded, log)
    }
  }
  const following = await follow(kafka, 'bookChanges', {
    from: partition => from[partition] ?? 0,
    onRecords: apply,
    signal,
  })
  following.closed.catch(() => undefined)
  await following.caughtUp
  log.info({ items: board.size, ms: Math.round(performance.now() - startedAt) }, 'the market is in memory')
  return { lost: following.closed }
}

/** A record that cannot be read is a dead letter of the sinks already; here it is left out. */
function applyDecoded(board: Board, record: FollowedRecord, decoded: Decoded | Outcome, log: Log): void {
  if (!isDecoded(decoded)) {
    log.warn({ partition: record.partition, offset: record.offset }, 'a record could not be read and was left out')
  } else if (decoded.event === 'BookChanged') board.change(decoded.value)
  else if (decoded.event === 'RefreshMarked') board.mark(decoded.value, record.partition)
}
