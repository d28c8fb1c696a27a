/**
 * How far every consumer group is behind the log, and waiting until all of them reflect its end.
 *
 * Reads the brokers only. A wait goes through the log's stages: the ends of the topics that come from outside are
 * noted first and waited for, then the ends of the topics that the groups before have derived from them, and so on. So
 * it ends also while new records keep coming, and when it ends every view reflects whatever had been published
 * when it began. Invariant: a group is at an end only when nothing but transaction markers lies between.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { connectKafka } from '#infra/kafka/connection.ts'
import { type Ends, type LagReader, openLagReader, type PartitionLag } from '#infra/kafka/lag.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { CommandFailure } from './command-failure.ts'
import { describeLag, stoppedNotes } from './group-lag.ts'
import { readingGroups, type TopicGroup } from './reading-groups.ts'

/** A wait's limits and listener. */
interface WaitOptions {
  signal: AbortSignal
  onProgress?: (text: string) => void
  /** Groups that are not waited for. */
  without?: readonly string[]
}

const POLL_MS = 150

/** Connects to the brokers of a platform. */
export const openPlatformLag = (config: PlatformConfig, log: Log): Promise<LagReader> =>
  openLagReader(
    connectKafka({ config, role: 'lag', log }),
    readingGroups().map(({ topic }) => topic),
  )

/** The distance of every group to the ends of now. */
export async function readLags(config: PlatformConfig, log: Log): Promise<PartitionLag[]> {
  const lagReader = await openPlatformLag(config, log)
  try {
    return await lagReader.read(readingGroups())
  } finally {
    await lagReader.close()
  }
}

/** Resolves once every group reflects what the log held at the call; rejects when one has stopped, or the signal aborts. */
export async function waitForViews(config: PlatformConfig, log: Log, options: WaitOptions): Promise<void> {
  const lagReader = await openPlatformLag(config, log)
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
