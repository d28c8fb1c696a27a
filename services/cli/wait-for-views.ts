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
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { CommandFailure } from './command-failure.ts'
import { describeLag, type PartitionLag, stoppedNotes } from './group-lag.ts'
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
  close(): Promise<void>
}

/** End offset of each partition, by topic. */
type Ends = Map<TopicKey, number[]>

const POLL_MS = 150
const NOTHING_COMMITTED = { next: -1, note: '' }

/** Connects to the brokers of a platform. */
export async function openLagReader(config: PlatformConfig, log: Log): Promise<LagReader> {
  const kafka = connectKafka({ config, role: 'lag', log })
  const admin = kafka.newClient('lag').admin()
  await admin.connect()
  const read = new Set(readingGroups().map(each => kafka.topicName(each.topic)))
  const reader = await openRangeReader(kafka, [...read])

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
          const { next, note } = positions.get(partition) ?? NOTHING_COMMITTED
          const position = await nextRecordAt(reader, { topic: name, partition, position: next, end })
          const lag = Math.max(0, end - position)
          lags.push({ group: each.group, topic: topics[each.topic].name, partition, position, end, lag, note })
        }
      }
      return lags
    },
    async close() {
      await reader.close()
      await admin.disconnect()
    },
  }
}

/** The distance of every group to the ends of now. */
export async function readLags(config: PlatformConfig, log: Log): Promise<PartitionLag[]> {
  const lagReader = await openLagReader(config, log)
  try {
    return await lagReader.read(readingGroups())
  } finally {
    await lagReader.close()
  }
}

/** Resolves once every group reflects what the log held at the call; rejects when one has stopped, or the signal aborts. */
export async function waitForViews(config: PlatformConfig, log: Log, options: WaitOptions): Promise<void> {
  const lagReader = await openLagReader(config, log)
  try {
    const awaited = readingGroups().filter(({ group }) => !options.without?.includes(group))
    const stages = Map.groupBy(awaited, each => each.stage)
    for (const groups of stages.values()) {
      const ends = await lagReader.ends(groups.map(each => each.topic))
      await untilReached(lagReader, groups, ends, options)
    }
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
    const lags = await lagReader.read(groups, ends)
    const [stopped] = stoppedNotes(lags)
    if (stopped !== undefined) throw new CommandFailure(stopped)
    const behind = lags.filter(each => each.lag > 0)
    if (behind.length === 0) return
    options.onProgress?.(describeLag(behind))
    await pause(POLL_MS, undefined, { signal: options.signal })
  }
}
