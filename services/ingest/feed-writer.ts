/**
 * Writes a feed's records: a transactional producer under an id of the feed's own.
 *
 * Each send is a transaction. States: closed → open (locked: a former owner is fenced, what it left open has ended) → failed →
 * open again, and closed for good. Invariant: the last owner to open a feed's writer writes it alone, in any process; what a former
 * owner still sends, also after a freeze, is refused. After a failure nothing is sent until the group has confirmed that this
 * process is still the owner, and the writer has been opened again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { BrokerHealth } from '#infra/kafka/broker-health.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { refusalOf } from '#infra/kafka/refusal.ts'
import { isFenced, openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { openBackoff } from '#streams/runner/slots.ts'
import type { Acquire } from './refresh-publisher.ts'

/** The log did not take a transaction: the refresh must begin again. */
export class WriteFailed extends Error {}

/** Writes the records of one feed. */
export interface FeedWriter {
  /** Writes records in one transaction. Throws WriteFailed. */
  send(records: readonly Outgoing[]): Promise<void>
  /**
   * Makes this the only writer of the feed and gives the end of market.feeds, below which its position is; undefined when the feed
   * is lost meanwhile. Throws when brokers stay unreachable.
   */
  open(): Promise<number | undefined>
  reopen(failure: WriteFailed): Promise<number | undefined>
  close(): Promise<void>
}

export interface WriterContext {
  kafka: KafkaConnection
  brokerHealth: Pick<BrokerHealth, 'answered' | 'lost'>
  /** Bounds how many writers open at once. */
  acquire: Acquire
  /** Counts what waits for brokers. */
  waits<T>(work: Promise<T>): Promise<T>
  confirmed(signal: AbortSignal): Promise<void>
}

/** The group of the processes that run feeds. */
export const GROUP = 'ingest'

/**
 * Below a second is usual. A process that freezes within a transaction blocks readers for as long, or until another process takes
 * the feed over, after its session timeout, which is as long.
 */
const TRANSACTION_TIMEOUT_MS = 10_000

export async function openFeedProducer(
  kafka: KafkaConnection,
  name: string,
  brokerHealth?: Pick<BrokerHealth, 'answered' | 'lost'>,
): Promise<TransactionalProducer> {
  const producer = await openTransactionalProducer(kafka, {
    transactionalId: `ingest-${name.replace('|', '-')}`,
    writers: ['ingest'],
    timeoutMs: TRANSACTION_TIMEOUT_MS,
    // The portions of a refresh follow one another at once: with 20 ms one of ten took twice as long.
    firstPauseMs: 4,
    ...(brokerHealth && { brokerHealth }),
  })
  try {
    await producer.lock(() => Promise.resolve())
    return producer
  } catch (error) {
    await producer.close()
    throw error
  }
}

/** The writer of a feed, not opened yet; `signal` aborts when this process no longer owns the feed. */
export function feedWriter(context: WriterContext, name: string, signal: AbortSignal): FeedWriter {
  const { kafka, waits } = context
  let producer: TransactionalProducer | undefined
  let sending: Promise<unknown> = Promise.resolve()
  const drop = async (): Promise<void> => {
    const former = producer
    producer = undefined
    await sending
    await former?.close().catch(error => kafka.log.debug({ error }, `closing the writer of ${name}`))
  }
  const openOnce = async (): Promise<number | undefined> => {
    const release = await context.acquire()
    try {
      if (signal.aborted) return undefined
      const opening = openFeedProducer(kafka, name, context.brokerHealth)
      const opened = await Promise.race([opening, abortOf(signal)])
      if (opened) producer = opened
      else opening.then(late => late.close()).catch(() => undefined)
      return await opened?.fixEnd('feeds', 0)
    } finally {
      release()
    }
  }
  const open = async (): Promise<number | undefined> => {
    const backoff = openBackoff(() => performance.now())
    while (!signal.aborted) {
      try {
        await drop()
        return await openOnce()
      } catch (error) {
        if (refusalOf(error) !== undefined) throw error
        kafka.log.debug({ error }, `the writer of ${name} could not be opened; it is tried again`)
        await delay(backoff.failed(error), undefined, { signal }).catch(() => undefined)
      }
    }
    return undefined
  }
  return {
    async send(records) {
      if (!producer) throw new WriteFailed(`the writer of ${name} is closed`)
      const sent = waits(producer.commit(records))
      sending = sent.catch(() => undefined)
      try {
        await sent
      } catch (error) {
        throw new WriteFailed(`${name} could not be written`, { cause: error })
      }
    },
    open: () => waits(open()),
    async reopen(failure) {
      if (signal.aborted) return undefined
      if (isFenced(failure))
        kafka.log.info(`${name}: another process has taken the feed over, or a transaction timed out`)
      else kafka.log.warn({ error: failure.cause }, `${name} could not be written; its refresh begins again`)
      // The group's answer is a broker's too: readiness names the brokers while it is missing.
      return await waits(context.confirmed(signal).then(open))
    },
    close: drop,
  }
}

function abortOf(signal: AbortSignal): Promise<undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  signal.addEventListener('abort', () => resolve(undefined), { once: true })
  return promise
}
