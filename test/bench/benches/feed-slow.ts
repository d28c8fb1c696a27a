/**
 * What clients that read slowly or not at all cost those that read: 100 good ones alone, then beside 100 stalled and 100
 * slow ones for a hundred seconds, then alone again.
 *
 * Slow ones read a third of what comes. A client that is ended at its cap connects again at once, so there are always as many. An
 * event holds 100 items, so that a stalled client reaches its cap within a minute. The three processes have a network of
 * their own whose send buffers are bounded as services/README.md advises for gateways: with Linux' own 4 MiB the kernel takes 400 MiB
 * for stalled clients within seconds, which a virtual machine may have to fetch from its host page by page. Good
 * clients get every event; a run in which one is missing, or a full one in which no client was ended, fails.
 */
import { type Baseline, type Measured, startBaseline } from '../baseline.ts'
import type { FeedCrowd, FeedSeen } from '../baselines/feed-clients.ts'
import type { FeedMemory, FeedOpening, FeedPace } from '../baselines/feed-server.ts'
import type { Bench, BenchContext, Better, Entry } from '../bench.ts'
import { figureEntry } from '../entry.ts'
import { networkOf, newNetwork, requireOwnNetwork } from '../own-network.ts'
import { standBehind } from '../stand-behind.ts'
import { median } from '../statistics.ts'

const SERVER = new URL('../baselines/feed-server.ts', import.meta.url)
const CLIENTS = new URL('../baselines/feed-clients.ts', import.meta.url)
const EACH = 100
const EVENTS_PER_SECOND = 30
const ITEMS = 100
const ITEM_BYTES = 110
const SLOW_SHARE = 1 / 3
const MIB = 2 ** 20
const CAP_BYTES = { full: 16 * MIB, quick: MIB }
const SECONDS = { full: { alone: 25, beside: 100 }, quick: { alone: 11, beside: 21 } }

/** Latency of good clients, memory of the process. */
export const feedSlow: Bench = {
  name: 'feed-slow',
  about: 'what 100 stalled and 100 slow clients of the feed cost 100 good ones, and the process',
  async run(context) {
    requireOwnNetwork('feed-slow')
    const server = startBaseline(SERVER, newNetwork)
    try {
      const capBytes = CAP_BYTES[context.isQuick ? 'quick' : 'full']
      const port = await server.ask<number>('open', { kind: 'gateway', capBytes } satisfies FeedOpening)
      return await withClients(context, server, port)
    } finally {
      await server.stop()
    }
  },
}

async function withClients(context: BenchContext, server: Baseline, port: number): Promise<Entry[]> {
  const beside = networkOf(server.pid as number)
  const [good, bad] = [startBaseline(CLIENTS, beside), startBaseline(CLIENTS, beside)]
  if (bad.pid !== undefined) standBehind(bad.pid)
  try {
    await good.ask('connect', { port, count: EACH, sampleEvery: 1 } satisfies FeedCrowd)
    const seconds = SECONDS[context.isQuick ? 'quick' : 'full']
    const phase = (seconds: number, what: string) => measure({ server, good, context }, seconds, what)
    await phase(2, 'warming up')
    const before = await phase(seconds.alone, 'good ones alone')
    const slow = ITEMS * ITEM_BYTES * EVENTS_PER_SECOND * SLOW_SHARE
    await bad.ask('connect', { port, count: EACH, reads: 'nothing', firstKey: EACH } satisfies FeedCrowd)
    await bad.ask('connect', { port, count: EACH, reads: slow, firstKey: 2 * EACH } satisfies FeedCrowd)
    const within = await phase(seconds.beside, 'beside stalled and slow ones')
    const { ended } = await bad.ask<FeedSeen>('seen', null)
    if (ended === 0 && !context.isQuick) throw new Error('feed-slow: no stalled or slow client was ended')
    await bad.stop()
    const after = await phase(seconds.alone, 'good ones alone again')
    context.log.info({ before, within, after, ended }, 'feed-slow')
    return entriesOf({ before, within, after, ended })
  } finally {
    await bad.stop()
    await good.stop()
  }
}

/** What good clients and the process went through in one phase. */
interface Phase {
  /** Of each window of five seconds: a stall of the machine spoils one of them, and not the figure. */
  windowsP99Ms: number[]
  peakMib: number
}

function entriesOf({ before, within, after, ended }: Record<'before' | 'within' | 'after', Phase> & { ended: number }) {
  const alone = [...before.windowsP99Ms, ...after.windowsP99Ms]
  const quiet = median(alone)
  const named = (name: string, unit: string, better: Better = 'lower') => ({
    name: `feed, stalled and slow clients: ${name}`,
    unit,
    better,
  })
  return [
    figureEntry(named('p99 of good ones', 'ms'), within.windowsP99Ms),
    figureEntry(named('p99 of good ones alone', 'ms'), alone),
    figureEntry(
      named('p99 of good ones, against alone', 'times'),
      within.windowsP99Ms.map(p99 => p99 / quiet),
    ),
    figureEntry(named('ended at their cap', 'streams', null), ended),
    figureEntry(named('memory they add', 'MiB'), within.peakMib - before.peakMib),
  ]
}

async function measure(
  { server, good, context }: { server: Baseline; good: Baseline; context: BenchContext },
  seconds: number,
  what: string,
): Promise<Phase> {
  context.signal.throwIfAborted()
  context.say(`${what} (${seconds} s)`)
  await server.ask<FeedMemory>('memory', null)
  const events = EVENTS_PER_SECOND * seconds
  await server.ask<Measured>('run', { perSecond: EVENTS_PER_SECOND, events, items: ITEMS } satisfies FeedPace)
  const { deliveries, windowsP99Ms } = await good.ask<FeedSeen>('seen', null)
  if (deliveries !== events * EACH) throw new Error(`${what}: ${deliveries} of ${events * EACH} deliveries arrived`)
  const { peakMib } = await server.ask<FeedMemory>('memory', null)
  return { windowsP99Ms, peakMib }
}
