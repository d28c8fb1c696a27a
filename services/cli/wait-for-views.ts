/**
 * How far every consumer group is behind the log, and waiting until all of them reflect its end.
 *
 * Reads the brokers only. A wait goes through the log's stages: the ends of the topics that come from outside are
 * noted first and waited for, then the ends of the topics that the groups before have derived from them, and so on. So
 * it ends also while new records keep coming, and when it ends every view reflects whatever had been published
 * when it began. Invariant: a group is at an end only when nothing but transaction markers lies between.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { groupOffsets } from '#infra/kafka/committed-offsets.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { nextRecordAt } from '#infra/kafka/lag.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { PROCESSORS } from '#streams/processors.ts'
import { resetCommand, stoppedInputs } from '#streams/runner/changelog-positions.ts'
import { Stopped } from '#streams/runner/positions.ts'
import { CommandFailure } from './command-failure.ts'
import { describeLag, type PartitionLag } from './group-lag.ts'
import { readingGroups, type TopicGroup } from './reading-groups.ts'

/** A wait's limits and listener. */
interface WaitOptions {
  signal: AbortSignal
  onProgress?: (text: string) => void
  /** Groups that are not waited for. */
  without?: readonly string[]
}

/** Reads the log's ends and the groups' positions. */
export interface LagReader {
  /** Distance of every group on every partition to the ends given, else to the ends of now. */
  read(groups: readonly TopicGroup[], ends?: Ends): Promise<PartitionLag[]>
  ends(keys: readonly TopicKey[]): Promise<Ends>
  /** Why groups do not go on reading, one line each. */
  stopped(groups: readonly string[]): Promise<string[]>
  close(): Promise<void>
}

/** End offset of each partition, by topic. */
type Ends = Map<TopicKey, number[]>

const POLL_MS = 150

/** Connects to the brokers of a platform. */
export async function openLagReader(config: PlatformConfig, log: Log): Promise<LagReader> {
  const kafka = connectKafka({ config, role: 'lag', log })
  const all = readingGroups()
  const admin = kafka.newClient('lag').admin()
  await admin.connect()
  const changelogs = PROCESSORS.map(({ changelog }) => changelog)
  const read = new Set([...all.map(each => each.topic), ...changelogs, ...PROCESSORS.map(({ output }) => output)])
  const reader = await openRangeReader(kafka, [...read].map(kafka.topicName))
  const ids = openTopicIds(kafka)

  const ends: LagReader['ends'] = async keys => {
    const found: Ends = new Map()
    for (const key of new Set(keys)) {
      const partitions = Array.from({ length: topics[key].partitions }, (_, partition) => partition)
      found.set(key, await Promise.all(partitions.map(each => reader.end(kafka.topicName(key), each))))
    }
    return found
  }
  return {
    ends,
    async read(groups, given) {
      const targets = given ?? (await ends(groups.map(each => each.topic)))
      const lags: PartitionLag[] = []
      for (const each of groups) {
        const name = kafka.topicName(each.topic)
        const positions = await groupOffsets(admin, kafka.groupName(each.group), name)
        for (const [partition, end] of (targets.get(each.topic) ?? []).entries()) {
          const committed = positions.get(partition) ?? -1
          const position = await nextRecordAt(reader, { topic: name, partition, position: committed, end })
          const lag = Math.max(0, end - position)
          lags.push({ group: each.group, topic: topics[each.topic].name, partition, position, end, lag })
        }
      }
      return lags
    },
    async stopped(groups) {
      const processors = PROCESSORS.filter(({ group }) => groups.includes(group))
      const found = await Promise.all(
        processors.map(async processor => ({
          processor,
          inputs: await stoppedInputs({ kafka, reader, ids }, processor),
        })),
      )
      return found.flatMap(({ processor: { group }, inputs }) =>
        inputs.map(input => new Stopped(group, input, input.fault, resetCommand(group)).message),
      )
    },
    async close() {
      await ids.close()
      await reader.close()
      await admin.disconnect()
    },
  }
}

/** The distance of every group to the ends of now, and why some do not go on. */
export async function readLags(config: PlatformConfig, log: Log): Promise<{ lags: PartitionLag[]; stopped: string[] }> {
  const lagReader = await openLagReader(config, log)
  try {
    const groups = readingGroups()
    return { lags: await lagReader.read(groups), stopped: await lagReader.stopped(groups.map(({ group }) => group)) }
  } finally {
    await lagReader.close()
  }
}

/** Resolves once every group reflects what the log held at the call; rejects when one has stopped, or the signal aborts. */
export async function waitForViews(config: PlatformConfig, log: Log, options: WaitOptions): Promise<void> {
  const lagReader = await openLagReader(config, log)
  try {
    const awaited = readingGroups().filter(({ group }) => !options.without?.includes(group))
    const names = awaited.map(({ group }) => group)
    const refuseStopped = async (): Promise<void> => {
      const [first] = await lagReader.stopped(names)
      if (first) throw new CommandFailure(first)
    }
    await refuseStopped()
    const stages = Map.groupBy(awaited, each => each.stage)
    for (const groups of stages.values()) {
      const ends = await lagReader.ends(groups.map(each => each.topic))
      await untilReached(lagReader, groups, ends, options)
    }
    await refuseStopped()
  } finally {
    await lagReader.close()
  }
}

async function untilReached(
  lagReader: LagReader,
  groups: readonly TopicGroup[],
  ends: Ends,
  options: WaitOptions,
): Promise<void> {
  for (;;) {
    options.signal.throwIfAborted()
    const behind = (await lagReader.read(groups, ends)).filter(each => each.lag > 0)
    if (behind.length === 0) return
    options.onProgress?.(describeLag(behind))
    await pause(POLL_MS, undefined, { signal: options.signal })
  }
}
