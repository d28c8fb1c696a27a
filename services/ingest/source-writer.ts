/**
 * Writes a source's records: a transactional producer under an id of the source's own.
 *
 * Each send is a transaction. States: closed → open (locked: a former owner is fenced, what it left open has ended) → failed →
 * open again, and closed for good. Invariant: the last owner to open a source's writer writes it alone, in any process; what a former
 * owner still sends, also after a freeze, is refused. After a failure nothing is sent until the group has confirmed that this
 * process is still the owner, and the writer has been opened again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type PQueue from 'p-queue'
import type { BrokerHealth } from '#infra/kafka/broker-health.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import { openBackoff, refusalOf } from '#infra/kafka/refusal.ts'
import { isFenced, openTransactionalProducer, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'

/** The log did not take a transaction: the refresh must begin again. */
export class WriteFailed extends Error {}

export type SourceWriter = ReturnType<typeof openSourceWriter>

export interface WriterContext {
  kafka: KafkaConnection
  brokerHealth: Pick<BrokerHealth, 'answered' | 'lost'>
  /** Bounds how many open at once. */
  opening: PQueue
  /** Counts what waits for brokers. */
  waits<T>(work: Promise<T>): Promise<T>
  /** Resolves when the group has answered. */
  confirmed(signal: AbortSignal): Promise<void>
}

export const GROUP = 'ingest'

/**
 * Below a second is usual. A process that freezes within a transaction blocks readers for as long, or until another process takes
 * the source over, after its session timeout, which is as long.
 */
const TRANSACTION_TIMEOUT_MS = 10_000

/** Opens the producer of a source and makes it the only one. */
export async function openSourceProducer(
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
    await producer.lock()
    return producer
  } catch (error) {
    await producer.close()
    throw error
  }
}

/** The writer of a source, not opened yet; `signal` aborts when this process no longer owns the source. */
export function openSourceWriter(context: WriterContext, name: string, signal: AbortSignal) {
  const { kafka, waits } = context
  let producer: TransactionalProducer | undefined
  let sending: Promise<unknown> = Promise.resolve()
  const close = async (): Promise<void> => {
    const former = producer
    producer = undefined
    await sending
    await former?.close().catch(error => kafka.log.debug({ error }, `closing the writer of ${name}`))
  }
  const openOnce = async (): Promise<number | undefined> => {
    if (signal.aborted) return undefined
    const opening = openSourceProducer(kafka, name, context.brokerHealth)
    const lost = new Promise<undefined>(resolve => {
      signal.addEventListener('abort', () => resolve(undefined), { once: true })
    })
    const opened = await Promise.race([opening, lost])
    if (opened) producer = opened
    else opening.then(late => late.close()).catch(() => undefined)
    return opened?.fencedEndOffset('feeds', 0)
  }
  const open = async (): Promise<number | undefined> => {
    const backoff = openBackoff(() => performance.now())
    while (!signal.aborted) {
      try {
        await close()
        return await context.opening.add(openOnce)
      } catch (error) {
        if (refusalOf(error) !== undefined) throw error
        kafka.log.debug({ error }, `the writer of ${name} could not be opened; it is tried again`)
        await delay(backoff.failed(error), undefined, { signal }).catch(() => undefined)
      }
    }
    return undefined
  }
  return {
    /** Writes records in one transaction. Throws WriteFailed. */
    async send(records: readonly Outgoing[]): Promise<void> {
      if (!producer) throw new WriteFailed(`the writer of ${name} is closed`)
      const sent = waits(producer.commit(records))
      sending = sent.catch(() => undefined)
      try {
        await sent
      } catch (error) {
        throw new WriteFailed(`${name} could not be written`, { cause: error })
      }
    },
    /**
     * Makes this the only writer of the source and gives the end of market.feeds, below which its position is; undefined when the
     * source is lost meanwhile. Throws when brokers stay unreachable.
     */
    open: () => waits(open()),
    /** The same after a failure, once the group has answered. */
    async reopen(failure: WriteFailed): Promise<number | undefined> {
      if (signal.aborted) return undefined
      if (isFenced(failure))
        kafka.log.info(`${name}: another process has taken the feed over, or a transaction timed out`)
      else kafka.log.warn({ error: failure.cause }, `${name} could not be written; its refresh begins again`)
      // The group's answer is a broker's too: readiness names the brokers while it is missing.
      return await waits(context.confirmed(signal).then(open))
    },
    close,
  }
}
