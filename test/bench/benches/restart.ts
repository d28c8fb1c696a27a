/**
 * Death and return at full size: SIGKILL, then the time until the new process has processed something new.
 *
 * The market's 1.2 million rows are in the book's changelog and in Redis. A small refresh is published while the
 * role is down; the clock goes from the start of the new process to the effect of that refresh. The worst of
 * several deaths counts. Beyond the bars: the live view without its table, built again from the log.
 */
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { headKey } from '#streams/live-view/table.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { figureEntry } from '../entry.ts'
import type { Listing, PublishedRound } from '../market-load.ts'
import type { Stage } from '../stage.ts'
import { worst } from '../statistics.ts'

const DEATHS = 3
const PROBE_ITEMS = 250
const LIMIT_MS = 180_000

/** Seconds from death to work. */
export const restart: Bench = {
  name: 'restart',
  ownStage: true,
  about: 'seconds until book and live-view work again after SIGKILL, with 1.2 million rows of state',
  async run(context) {
    const stage = await context.stage()
    await stage.book()
    await stage.role('live-view')
    await untilLive(stage)
    const probe = stage.market.smallListings(['restart_probe'], PROBE_ITEMS)
    const deaths = context.isQuick ? 1 : DEATHS
    const book = await eachOf(context, deaths, 'book', () => restartBook(stage, probe))
    const liveView = await eachOf(context, deaths, 'live-view', () => restartLiveView(stage, probe, false))
    const rebuilt = await eachOf(context, 1, 'live-view without a table', () => restartLiveView(stage, probe, true))
    return [
      entry('book: SIGKILL to processing again', book),
      entry('live-view: SIGKILL to processing again', liveView),
      entry('live-view: the same without its table in Redis', rebuilt),
    ]
  },
}

/** The worst counts: a limit of a return is one of every return. */
const entry = (name: string, seconds: readonly number[]): Entry =>
  figureEntry({ name, unit: 's', better: 'lower' }, seconds, worst)

async function eachOf(
  context: BenchContext,
  deaths: number,
  what: string,
  die: () => Promise<number>,
): Promise<number[]> {
  const seconds: number[] = []
  for (let death = 1; death <= deaths; death++) {
    context.signal.throwIfAborted()
    context.say(`${what}: death ${death} of ${deaths}`)
    seconds.push(await die())
  }
  return seconds
}

async function restartBook(stage: Stage, probe: readonly Listing[]): Promise<number> {
  await (await stage.book()).kill()
  const { refreshes } = await stage.market.publish(probe, 1)
  const startedAt = performance.now()
  await stage.start('book', ['book'])
  await stage.judged.applied(refreshes, LIMIT_MS)
  return (performance.now() - startedAt) / 1000
}

async function restartLiveView(stage: Stage, probe: readonly Listing[], withoutTable: boolean): Promise<number> {
  await (await stage.role('live-view')).kill()
  if (withoutTable) await dropHeads(stage)
  const round: PublishedRound = await stage.market.publish(probe, 1)
  await stage.judged.applied(round.refreshes, LIMIT_MS)
  const startedAt = performance.now()
  await stage.start('live-view', ['live-view'])
  await untilLive(stage)
  return (performance.now() - startedAt) / 1000
}

const untilLive = async (stage: Stage): Promise<void> =>
  stage.reached('live-view', 'bookChanges', await stage.ends('bookChanges'), LIMIT_MS)

/** Without a head a partition's table counts as absent, whatever else stands in Redis. */
async function dropHeads({ config, log }: Stage): Promise<void> {
  const redis = await openRedis(config, { name: `${config.namespace}bench`, log })
  try {
    for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
      await redis.unlink(headKey(partition, config.namespace))
    }
  } finally {
    await closeRedis(redis)
  }
}
