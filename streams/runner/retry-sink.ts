/**
 * Takes dead letters and unresolved records once more, into the view of their group and by its own sink.
 *
 * One partition of the topic `retries`. Only for views that merge by log offset: a record comes with its own offset, so taking
 * it late, twice, or after its successors leaves what taking it in time would have left. The view keeps its single writer,
 * since the group that owns it does the work. Invariant: a record that fails again is a dead letter again, under the
 * same identity, before the group moves on.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import type { RetryAsked } from '#schemas/events/retry-asked.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import type { DeadLetters } from './dead-letters.ts'
import { decodeSlowly, isDecoded } from './decoding.ts'
import { OK, type StreamRecord } from './outcome.ts'
import type { PartitionSink, SinkSpec } from './sink-runner.ts'

/** What retrying needs of its runner. */
export interface RetryParts {
  spec: SinkSpec
  codec: Codec
  deadLetters: DeadLetters
  send(records: readonly Outgoing[]): Promise<void>
}

/** Opens the sink of a partition of `retries`. */
export function openRetrySink(parts: RetryParts): PartitionSink {
  const { group } = parts.spec
  let asked: Asked[] = []
  return {
    position: undefined,
    apply(record) {
      if (record.event !== 'RetryAsked') return { kind: 'skip', reason: 'other_event' }
      const one: RetryAsked = record.value
      if (one.group !== null && one.group !== group) return { kind: 'skip', reason: 'another_group' }
      if (topicOf(parts.spec, one) === undefined) return { kind: 'skip', reason: 'another_topic' }
      asked.push({ ...record, value: one })
      return OK
    },
    async flush() {
      const byPartition = Map.groupBy(asked, ({ value }) => `${value.topic}/${value.partition}`)
      for (const records of byPartition.values()) await takeAgain(parts, records)
      asked = []
    },
    close: async () => undefined,
  }
}

/** An ask as it came; what it has beside the record that is taken again, that has too. */
type Asked = StreamRecord & { value: RetryAsked }

const topicOf = ({ topics: read }: SinkSpec, { topic }: RetryAsked): TopicKey | undefined =>
  read.find(key => topics[key].name === topic)

/** Takes the records of one partition again, in the order of the log. */
async function takeAgain({ spec, codec, deadLetters, send }: RetryParts, records: readonly Asked[]): Promise<void> {
  const [first] = records
  const topic = first && topicOf(spec, first.value)
  if (first === undefined || topic === undefined) return
  const { partition } = first.value
  const sink = await spec.open(topic, partition)
  try {
    const again: Outgoing[] = []
    const ordered = [...records].sort((a, b) => a.value.offset - b.value.offset)
    if (sink.prepare) await sink.prepare()
    for (const ask of ordered) {
      const { offset, key, value } = ask.value
      const decoded = await decodeSlowly(codec, value)
      const source = { topic, partition, offset }
      const outcome = isDecoded(decoded)
        ? sink.apply({ ...ask, ...source, key: key?.toString() ?? null, ...decoded, raw: value })
        : decoded
      if (outcome.kind === 'retry') throw new Error(`${spec.group} cannot take ${topic}-${partition}@${offset} yet`)
      const deadLetter = deadLetters.recordOf({ ...source, key, value }, outcome)
      if (deadLetter) again.push(deadLetter)
    }
    if (again.length > 0) await send(again)
    await sink.flush((ordered.at(-1)?.value.offset ?? 0) + 1)
  } finally {
    await sink.close()
  }
}
