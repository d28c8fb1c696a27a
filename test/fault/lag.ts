/**
 * How many records wait for a group, over all topics that it reads.
 */
import { readingGroups } from '#services/cli/reading-groups.ts'
import type { LagReader } from '#services/cli/wait-for-views.ts'

/** The records between a group's positions and the ends of its topics. */
export async function lagOf(look: LagReader, group: string): Promise<number> {
  const lags = await look.read(readingGroups().filter(reading => reading.group === group))
  return lags.reduce((sum, { lag }) => sum + lag, 0)
}
