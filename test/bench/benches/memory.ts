/**
 * Memory of each role, alone in its process, with the whole market of 1.2 million asks.
 *
 * Every role has caught up with the log and then been left alone for some seconds. The query service and the feed
 * are measured at rest; ingest after it has published every feed of the full market once. Resident
 * memory: what the system gave the process, garbage not yet collected included.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { loadMarket } from '#infra/config/market.ts'
import { topics } from '#schemas/topics.ts'
import { readingGroups } from '#services/cli/reading-groups.ts'
import { ROLE_NAMES, type RoleName } from '#services/cli/roles.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { Bench, Entry } from '../bench.ts'
import { figureEntry } from '../entry.ts'
import type { Stage } from '../stage.ts'

/** All that stay up by themselves; ingest comes last, and what stands in for the outside keeps nothing. */
const ROLES: readonly RoleName[] = ROLE_NAMES.filter(name => name !== 'ingest' && name !== 'inventory-stand-in')
const SETTLE_MS = 4_000
const CATCH_UP_LIMIT_MS = 300_000
const INGEST_LIMIT_MS = 240_000

/** Mebibytes by role. */
export const memory: Bench = {
  name: 'memory',
  ownStage: true,
  about: 'resident memory of each role alone with the whole market',
  async run(context) {
    const stage = await context.stage()
    for (const role of ROLES) await stage.role(role)
    for (const { group, topic } of readingGroups()) {
      context.say(`${group} is catching up with ${topics[topic].name}`)
      await stage.reached(group, topic, await stage.ends(topic), CATCH_UP_LIMIT_MS)
    }
    context.say('letting the roles settle')
    await pause(SETTLE_MS)
    const entries: Entry[] = []
    for (const role of ROLES) entries.push(await entryOf(stage, role))
    // What ingest publishes is another market: no role should work on it.
    await stage.stopAll()
    if (context.isQuick) return entries
    context.say('ingest is publishing the full market')
    const ingest = await stage.start('ingest', ['ingest'], { MARKET: 'full' })
    const feeds = loadMarket('full').feeds.length
    await eventually(
      async () => (await ingest.metric('marketlog_ingest_refreshes_total')) >= feeds,
      `${feeds} feeds to be published`,
      INGEST_LIMIT_MS,
    )
    await pause(SETTLE_MS)
    return [...entries, await entryOf(stage, 'ingest')]
  },
}

async function entryOf(stage: Stage, role: RoleName): Promise<Entry> {
  const { residentMib } = await (await stage.role(role)).figures()
  return figureEntry({ name: `memory of ${role}`, unit: 'MiB', better: 'lower' }, residentMib)
}
