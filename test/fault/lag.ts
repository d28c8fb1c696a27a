/** How many records wait for a group, over all topics that it reads. */

import type { LagReader } from '#infra/kafka/lag.ts'
import { readingGroups } from '#services/cli/reading-groups.ts'
import { eventually } from '#test/harness/eventually.ts'

/** The records between a group's positions and the ends of its topics. */
export async function lagOf(look: LagReader, group: string): Promise<number> {
  const lags = await look.read(readingGroups().filter(reading => reading.group === group))
  return lags.reduce((sum, { lag }) => sum + lag, 0)
}

/** Resolves when groups have reached the ends of their topics, one after the other: what one derives, the next has yet to read. */
export async function groupsDrained(look: LagReader, groups: readonly string[], limitMs: number): Promise<void> {
  for (const group of groups)
    await eventually(async () => (await lagOf(look, group)) === 0, `${group} to reach its end`, limitMs)
}
