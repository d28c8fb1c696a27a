/**
 * What goes with each batch of a group (group-loop.ts): the slot, the clock, the counters and the backoff after failures.
 *
 * Invariant: an error drops the partition's slot, so nothing that a failed attempt left in memory is
 * used again; an error of the group goes on to the client, which joins again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { BatchAnswer, Commit, GroupHandler, MessageBatch, Tick } from '#infra/kafka/group-consumer.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { groupErrorIn, rethrowUnlessGroupError } from './group-errors.ts'
import { Stopped } from './positions.ts'
import type { ProgressWatch } from './progress-watch.ts'
import { openBackoff, type Slots, whileTicking } from './slots.ts'
import type { UnknownEvents } from './unknown-events.ts'

const STOPPED_PAUSE_MS = 2_000

/** The work on a batch. */
export type ProcessBatch<S> = (slot: S, batch: MessageBatch, tick: Tick, commit: Commit) => Promise<BatchAnswer>

/** Handles the batches of a group. */
export function batchLoop<S extends { close(): Promise<void> }>(options: {
  group: string
  log: Log
  metrics: Metrics
  slots: Slots<S>
  process: ProcessBatch<S>
  /** A partition's log holds only control records before `next`. */
  passed?: (slot: S, next: number) => Promise<void>
  watch?: ProgressWatch | undefined
  unknown?: UnknownEvents | undefined
}): GroupHandler {
  const { group, log, metrics, slots, watch, unknown } = options
  const seconds = metrics.histogram('marketlog_batch_seconds', 'Time from a batch to its commit.', ['group'])
  const taken = metrics.counter('marketlog_records_taken_total', 'Records taken by a group.', ['group'])
  const backoff = openBackoff(Date.now)
  return {
    assigned(partitions, resumeAt) {
      watch?.assigned(partitions)
      unknown?.assigned(partitions)
      slots.replace(partitions, resumeAt)
    },
    async batch(batch, tick, commit) {
      await tick()
      const end = seconds.startTimer({ group })
      try {
        const slot = await slots.get(batch.topic, batch.partition, tick)
        const answer = await options.process(slot, batch, tick, commit)
        backoff.succeeded()
        if (answer === 'again') watch?.waited(batch.topic, batch.partition)
        else {
          watch?.moved(batch.topic, batch.partition, answer === 'done' ? batch.next : answer)
          unknown?.passed(batch.topic, batch.partition)
        }
        taken.inc({ group }, batch.messages.length)
        return answer
      } catch (error) {
        const isStopped = error instanceof Stopped
        if (isStopped) watch?.waited(batch.topic, batch.partition)
        else log.warn({ error, partition: batch.partition }, 'a batch did not go through; it is tried again')
        const dropped = slots.drop(batch.topic, batch.partition)
        const groupError = groupErrorIn(error)
        if (groupError !== undefined) {
          // The group does not wait for a partition that is still opening and may be another's by now.
          dropped.catch(closing => log.debug({ error: closing }, 'closing a partition'))
          throw groupError
        }
        await dropped
        // A stopped partition is opened again for the next try, since a command may have decided meanwhile.
        await whileTicking(delay(isStopped ? STOPPED_PAUSE_MS : backoff.failed(error)), tick)
        return 'again'
      } finally {
        end()
      }
    },
    async passed(topic, partition, next, commit) {
      watch?.moved(topic, partition, next)
      const slot = slots.peek(topic, partition)
      if (slot === undefined) return
      try {
        await options.passed?.(slot, next)
      } catch (error) {
        log.warn({ error, partition }, 'a position could not be written; the partition is opened again')
        slots.reopen(slot)
        return
      }
      await commit(topic, partition, next).catch(rethrowUnlessGroupError)
    },
  }
}
