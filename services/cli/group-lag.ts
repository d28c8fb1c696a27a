/**
 * Distances of consumer groups to the end of the log, summed up and formatted.
 *
 * A lag counts offsets, transaction markers among them, so it bounds the records from above.
 */
import type { PartitionLag } from '#infra/kafka/lag.ts'

/** A group's distance to the end of a topic, all partitions together. */
export interface GroupLag {
  group: string
  topic: string
  partitions: number
  /** Partitions on which the group is behind. */
  behind: number
  lag: number
}

/** Sums partitions up, in the order of the groups. */
export function sumByGroup(lags: readonly PartitionLag[]): GroupLag[] {
  const groups = Map.groupBy(lags, each => `${each.group}\0${each.topic}`)
  return [...groups.values()].map(each => ({
    group: each[0]?.group ?? '',
    topic: each[0]?.topic ?? '',
    partitions: each.length,
    behind: each.filter(({ lag }) => lag > 0).length,
    lag: each.reduce((sum, { lag }) => sum + lag, 0),
  }))
}

/** Why groups do not go on reading, one line for each reason. */
export const stoppedNotes = (lags: readonly PartitionLag[]): string[] => [
  ...new Set(lags.flatMap(({ note }) => (note === '' ? [] : [note]))),
]

/** `book 12,345, history 88` */
export function describeLag(lags: readonly PartitionLag[]): string {
  const groups = Map.groupBy(lags, each => each.group)
  return [...groups]
    .map(([group, each]) => `${group} ${each.reduce((sum, { lag }) => sum + lag, 0).toLocaleString('en')} behind`)
    .join(', ')
}
