/**
 * Keeps the board: seeded from the live view, then following market.book-changes.
 *
 * Reads without a group, since its state is in memory and every start reads it again. The board is given out only
 * after all that was in the log when following began has been applied. It follows from where the view ends: rows are newer
 * than that position at worst, which following corrects.
 *
 * Why not the book's changelog: it holds the same rows, but all of its partitions must be read for any one, and the
 * live view gives 1.5 million rows in 3 s by a script that joins an item's rows to one text.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type Decoded, eventOf } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS, topics } from '#schemas/topics.ts'
import type { LiveReader } from '#streams/live-view/reader.ts'
import type { Board } from './board.ts'

const SEED_AGAIN_MS = 1_000

interface MarketFollowing {
  kafka: KafkaConnection
  ids?: TopicIds
  live: Pick<LiveReader, 'scan'>
  log: Log
  signal: AbortSignal
}

/**
 * Resolves when the board shows the present market, and keeps following; `position` is the next offset that the board does not reflect,
 * `lost` rejects when the log is lost.
 */
export async function followMarket(
  board: Board,
  { kafka, ids, live, log, signal }: MarketFollowing,
): Promise<{ position(partition: number): number; lost: Promise<void> } | undefined> {
  await kafka.codec.prepare([...topics.bookChanges.events])
  const startedAt = performance.now()
  const seed = async () => seedBoard(live, board, await ids?.idOf('bookChanges'))
  let positions = await seed()
  for (; !positions && !signal.aborted; positions = await seed()) {
    await pause(SEED_AGAIN_MS, undefined, { signal }).catch(() => undefined)
  }
  if (!positions || signal.aborted) return undefined
  const from = positions
  const apply = (records: LogRecord[]): void => {
    for (const record of records) applyDecoded(board, record, eventOf(kafka.codec, record.value), log)
  }
  const following = await follow(kafka, 'bookChanges', {
    from: partition => from[partition] ?? 0,
    onRecords: apply,
    signal,
    ids,
  })
  following.closed.catch(() => undefined)
  await following.caughtUp
  log.info({ items: board.size, ms: Math.round(performance.now() - startedAt) }, 'the market is in memory')
  return { position: following.position, lost: following.closed }
}

const SIDES: readonly Side[] = ['ask', 'bid']

/** Fills the board, or fills it again; the next offset of each partition, or undefined while one has no live view of the topic. */
async function seedBoard(
  live: MarketFollowing['live'],
  board: Board,
  topicId: string | undefined,
): Promise<number[] | undefined> {
  const positions: number[] = []
  for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
    const head = await live.scan(partition, {
      begin: () => board.clear(partition),
      take: (side, provider, itemId, { priceMicroUsd: microUsd, quantity, seenAt }) =>
        board.set(side, provider, itemId, { microUsd, quantity, seenAt }),
    })
    if (head === undefined || head.topicId !== (topicId ?? head.topicId)) return undefined
    for (const side of SIDES) {
      for (const [provider, at] of Object.entries(head[side])) board.refreshed(side, provider, partition, at)
    }
    positions.push(head.next)
  }
  return positions
}

/** A record that cannot be read is a dead letter of the sinks already; here it is left out. */
function applyDecoded(board: Board, record: LogRecord, decoded: Decoded | undefined, log: Log): void {
  if (decoded === undefined) {
    log.warn({ partition: record.partition, offset: record.offset }, 'a record could not be read and was left out')
  } else if (decoded.event === 'BookChanged') board.change(decoded.value)
  else if (decoded.event === 'RefreshMarked') board.mark(decoded.value, record.partition)
}
