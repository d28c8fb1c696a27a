/**
 * Where a feed's records go, and how many portions of them may be on their way at once.
 *
 * What one feed prepares beyond what is being sent only takes memory and the event loop's time: 60 feeds that are due
 * together blocked everything for 0.7 s. At most PORTIONS_MAX portions exist in the process; feeds acquire them in the
 * order in which they asked.
 */
import PQueue from 'p-queue'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'

/** Acquires a permit of a semaphore; the caller calls what it gets once it is done. */
export type Acquire = () => Promise<() => void>

/** Writes refreshes to Kafka. */
export interface RefreshPublisher {
  codec: Codec
  publisher: Pick<Publisher, 'send'>
  /** Acquires the right to prepare a portion; the caller releases it once the portion is acknowledged or dropped. */
  acquire: Acquire
}

/** One on its way, one ready behind it, one being made. A feed holds two at most, so two is the least. */
const PORTIONS_MAX = 3

export function openRefreshPublisher(
  codec: Codec,
  publisher: Pick<Publisher, 'send'>,
  acquire = openSemaphore(PORTIONS_MAX),
): RefreshPublisher {
  return { codec, publisher, acquire }
}

/** Opens a semaphore that grants its permits in order: a task of the queue runs until its caller releases it. */
export function openSemaphore(permits = PORTIONS_MAX): Acquire {
  const queue = new PQueue({ concurrency: permits })
  return () => new Promise(grant => void queue.add(() => new Promise<void>(grant)))
}
