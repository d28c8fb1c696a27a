/**
 * `marketlog lag`: how far each consumer group is behind the log; with --wait, until every view reflects it.
 *
 * Reads the brokers only. A lag counts offsets, transaction markers among them, so it bounds the records from above. A wait goes
 * through the log's stages: the ends of the topics that come from outside are noted first and waited for, then the ends of the
 * topics that the groups before have derived from them, and so on. So it ends also while new records keep coming, and when it
 * ends every view reflects whatever had been published when it began. Invariant: a group is at an end only when nothing but
 * transaction markers lies between.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { connectKafka } from '#infra/kafka/connection.ts'
import { type LagReader, openLagReader, type PartitionLag } from '#infra/kafka/lag.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { CommandFailure } from './command-failure.ts'
import { type CommandContext, writeResults } from './output.ts'
import { withProgress } from './progress.ts'
import { readingGroups } from './reading-groups.ts'

const POLL_MS = 150
export const openPlatformLag = (config: PlatformConfig, log: Log): Promise<LagReader> =>
  openLagReader(
    connectKafka({ config, role: 'lag', log }),
    readingGroups().map(({ topic }) => topic),
  )

async function withLagReader<T>(config: PlatformConfig, log: Log, work: (reader: LagReader) => Promise<T>): Promise<T> {
  const reader = await openPlatformLag(config, log)
  try {
    return await work(reader)
  } finally {
    await reader.close()
  }
}

export const readLags = (config: PlatformConfig, log: Log): Promise<PartitionLag[]> =>
  withLagReader(config, log, reader => reader.read(readingGroups()))

/** Each group's distance to the end of a topic, all partitions together; `behind`: partitions on which it has not reached it. */
export function sumByGroup(lags: readonly PartitionLag[]) {
  const groups = Map.groupBy(lags, ({ group, topic }) => `${group}\0${topic}`)
  return [...groups.values()].map(each => ({
    group: each[0]?.group ?? '',
    topic: each[0]?.topic ?? '',
    partitions: each.length,
    behind: each.filter(({ lag }) => lag > 0).length,
    lag: sumOf(each),
  }))
}

const sumOf = (lags: readonly PartitionLag[]): number => lags.reduce((sum, { lag }) => sum + lag, 0)

/** Why groups do not go on reading, one line for each reason. */
const stoppedNotes = (lags: readonly PartitionLag[]): string[] => [
  ...new Set(lags.flatMap(({ note }) => (note === '' ? [] : [note]))),
]

/** `book 12,345 behind, history 88 behind` */
export const describeLag = (lags: readonly PartitionLag[]): string =>
  [...Map.groupBy(lags, ({ group }) => group)]
    .map(([group, each]) => `${group} ${sumOf(each).toLocaleString('en')} behind`)
    .join(', ')

/** Prints the lag of every group, or waits for them; fails when one does not go on reading. */
export async function showLag(
  { config, log, output }: CommandContext,
  options: { wait?: boolean; timeout: number; json?: boolean },
): Promise<void> {
  if (options.wait) return waitForLag(config, log, options.timeout)
  const lags = await readLags(config, log)
  await writeResults(output, options, sumByGroup(lags), [
    { head: 'group', cell: ({ group }) => group },
    { head: 'topic', cell: ({ topic }) => topic },
    { head: 'partitions', cell: ({ partitions }) => partitions },
    { head: 'behind', cell: ({ behind }) => behind },
    { head: 'records', cell: ({ lag }) => lag.toLocaleString('en') },
  ])
  const stopped = stoppedNotes(lags)
  if (stopped.length > 0) throw new CommandFailure(stopped.join('\n'))
}

/** Waits until every view reflects what the log holds now; fails when that takes longer than the limit. */
async function waitForLag(config: PlatformConfig, log: Log, limitSeconds: number): Promise<void> {
  const signal = AbortSignal.timeout(limitSeconds * 1000)
  try {
    await withProgress(progress =>
      waitForViews(config, log, { signal, onProgress: text => progress.step(`waiting for the views: ${text}`) }),
    )
  } catch (error) {
    if (!signal.aborted) throw error
    const behind = (await readLags(config, log)).filter(({ lag }) => lag > 0)
    const text = describeLag(behind) || 'they do only now'
    throw new CommandFailure(`the views do not reflect the log's end after ${limitSeconds} s: ${text}`)
  }
}

/**
 * Resolves once the groups, all unless some are chosen, reflect what the log held at the call; rejects when one has stopped, or the
 * signal aborts.
 */
export async function waitForViews(
  config: PlatformConfig,
  log: Log,
  options: { signal: AbortSignal; onProgress?: (text: string) => void; isAwaited?: (group: string) => boolean },
): Promise<void> {
  const { signal, onProgress, isAwaited = () => true } = options
  const awaited = readingGroups().filter(({ group }) => isAwaited(group))
  await withLagReader(config, log, async reader => {
    for (const groups of Map.groupBy(awaited, ({ stage }) => stage).values()) {
      const ends = await reader.ends(groups.map(({ topic }) => topic))
      for (;;) {
        signal.throwIfAborted()
        const lags = await reader.read(groups, ends)
        const [stopped] = stoppedNotes(lags)
        if (stopped !== undefined) throw new CommandFailure(stopped)
        const behind = lags.filter(({ lag }) => lag > 0)
        if (behind.length === 0) break
        onProgress?.(describeLag(behind))
        await pause(POLL_MS, undefined, { signal })
      }
    }
  })
}
