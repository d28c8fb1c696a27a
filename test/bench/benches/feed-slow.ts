/**
 * What clients that read slowly or not at all cost those that read: 100 good ones alone, then beside 100 stalled and 100
 * slow ones for three minutes, then alone again.
 *
 * Slow ones read a third of what comes. Whoever is ended at its cap comes back at once, so there are always as many. An
 * event holds 100 items, so that a stalled client reaches its cap within a minute. The three processes have a network of
 * their own whose send buffers are bounded as the README advises for gateways: with Linux' own 4 MiB the kernel takes 400 MiB
 * for stalled clients within seconds, which a virtual machine may have to fetch from its host page by page. Invariant: good
 * clients get every event; a run in which one is missing, or a full one in which nobody was ended, is no result.
 */
import { spawnSync } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import type { Bench, BenchContext } from '../bench.ts'
import { figureEntry } from '../entry.ts'
import { canHaveOwnNetwork, networkOf, newNetwork } from '../own-network.ts'
import { type Measured, startYardstick, type Yardstick } from '../yardstick.ts'
import type { FeedCrowd, FeedSeen } from '../yardsticks/feed-clients.ts'
import type { FeedMemory, FeedOpening, FeedPace } from '../yardsticks/feed-server.ts'

const SERVER = new URL('../yardsticks/feed-server.ts', import.meta.url)
const CLIENTS = new URL('../yardsticks/feed-clients.ts', import.meta.url)
const EACH = 100
const EVENTS_PER_SECOND = 30
const ITEMS = 100
const ITEM_BYTES = 110
const SLOW_SHARE = 1 / 3
const MIB = 2 ** 20
const CAP_BYTES = { full: 16 * MIB, quick: MIB }
const SECONDS = { full: { alone: 30, beside: 180 }, quick: { alone: 5, beside: 20 } }
const RATIO_BAR = 1.2
/** Of the caps of all bad clients together: what they leave unread is mostly the same events. */
const MEMORY_SHARE = 0.1

/** Latency of good clients, memory of the process. */
export const feedSlow: Bench = {
  name: 'feed-slow',
  about: 'what 100 stalled and 100 slow clients of the feed cost 100 good ones, and the process',
  async run(context) {
    const size = context.isQuick ? 'quick' : 'full'
    const capBytes = CAP_BYTES[size]
    const isApart = canHaveOwnNetwork()
    if (!isApart)
      context.say('no network namespace can be made here: send buffers are as large as this machine lets them be')
    const server = startYardstick(SERVER, isApart ? newNetwork : [])
    const port = await server.ask<number>('open', { kind: 'gateway', capBytes } satisfies FeedOpening)
    const beside = isApart ? networkOf(server.pid as number) : []
    const [good, bad] = [startYardstick(CLIENTS, beside), startYardstick(CLIENTS, beside)]
    if (bad.pid !== undefined) standBehind(bad.pid)
    try {
      await good.ask('connect', { port, count: EACH, looks: 1 } satisfies FeedCrowd)
      const seconds = SECONDS[size]
      const tell = (seconds: number, what: string) => measure({ server, good, context }, seconds, what)
      await tell(2, 'warming up')
      const before = await tell(seconds.alone, 'good ones alone')
      const slow = ITEMS * ITEM_BYTES * EVENTS_PER_SECOND * SLOW_SHARE
      await bad.ask('connect', { port, count: EACH, reads: 'nothing', firstKey: EACH } satisfies FeedCrowd)
      await bad.ask('connect', { port, count: EACH, reads: slow, firstKey: 2 * EACH } satisfies FeedCrowd)
      const within = await tell(seconds.beside, 'beside stalled and slow ones')
      const { ended } = await bad.ask<FeedSeen>('seen', null)
      if (ended === 0 && !context.isQuick) throw new Error('no stalled or slow client was ended')
      await bad.stop()
      const after = await tell(seconds.alone, 'good ones alone again')
      context.log.info({ before, within, after, ended }, 'feed-slow')
      const quiet = (before.p99Ms + after.p99Ms) / 2
      const caps = (2 * EACH * capBytes) / MIB
      const named = (name: string, unit: string) => ({ name: `feed, stalled and slow clients: ${name}`, unit })
      return [
        figureEntry(named('p99 of good ones', 'ms'), within.p99Ms),
        figureEntry(named('p99 of good ones alone', 'ms'), quiet),
        figureEntry(named('p99 of good ones, against alone', 'times'), within.p99Ms / quiet, RATIO_BAR),
        figureEntry(named('ended at their cap', 'streams'), ended),
        figureEntry(named('memory they add', 'MiB'), within.peakMib - before.peakMib, caps * MEMORY_SHARE),
      ]
    } finally {
      await bad.stop()
      await good.stop()
      await server.stop()
    }
  },
}

/**
 * Elsewhere bad clients would have machines of their own: here they take what processor time nobody wants. With the lowest
 * priority alone, for machines without chrt, one of them that runs keeps a good one waiting for the rest of its slice, 3 ms.
 */
function standBehind(pid: number): void {
  setPriority(pid, constants.priority.PRIORITY_LOW)
  spawnSync('chrt', ['--all-tasks', '--idle', '--pid', '0', String(pid)])
}

async function measure(
  { server, good, context }: { server: Yardstick; good: Yardstick; context: BenchContext },
  seconds: number,
  what: string,
): Promise<{ p99Ms: number; peakMib: number }> {
  context.signal.throwIfAborted()
  context.say(`${what} (${seconds} s)`)
  await server.ask<FeedMemory>('memory', null)
  const events = EVENTS_PER_SECOND * seconds
  await server.ask<Measured>('run', { perSecond: EVENTS_PER_SECOND, events, items: ITEMS } satisfies FeedPace)
  const { deliveries, p99Ms } = await good.ask<FeedSeen>('seen', null)
  if (deliveries !== events * EACH) throw new Error(`${what}: ${deliveries} of ${events * EACH} deliveries arrived`)
  const { peakMib } = await server.ask<FeedMemory>('memory', null)
  return { p99Ms, peakMib }
}
