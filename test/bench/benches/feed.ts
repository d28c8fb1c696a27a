/**
 * Fan-out of the feed against a plain Node server that writes one shared buffer, and what idle clients cost.
 *
 * 1,000 clients in a process of their own, 100 events a second: 100,000 deliveries a second. Both servers run in turns,
 * each in its own process; what counts is deliveries per second of the server's CPU. An event that was not
 * delivered to every client fails the run.
 */
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { figureEntry, ratioEntry, type Turn } from '../entry.ts'
import { type Measured, startYardstick } from '../yardstick.ts'
import type { FeedCrowd, FeedSeen } from '../yardsticks/feed-clients.ts'
import type { FeedPace, FeedServerKind } from '../yardsticks/feed-server.ts'

const SERVER = new URL('../yardsticks/feed-server.ts', import.meta.url)
const CLIENTS = new URL('../yardsticks/feed-clients.ts', import.meta.url)
const SUBSCRIBERS = 1_000
const EVENTS_PER_SECOND = 100
const IDLE_CLIENTS = 10_000
const TURNS = 3
const SECONDS = 5
const RATIO_BAR = 0.7
const P99_BAR_MS = 250
const IDLE_BAR_MIB = 300

interface Slice {
  perCoreSecond: number
  p99Ms: number
}

/** Deliveries of the feed. */
export const feed: Bench = {
  name: 'feed',
  about: 'deliveries of the feed to 1,000 subscribers, against plain Node that writes one shared buffer',
  async run(context) {
    const turns: [Slice, Slice][] = []
    for (let turn = 0; turn < (context.isQuick ? 1 : TURNS); turn++) {
      context.say(`turn ${turn + 1}`)
      turns.push([await slice('gateway', context), await slice('plain', context)])
      context.log.info({ turn, pair: turns.at(-1) }, 'feed')
    }
    const of = (figure: keyof Slice): Turn[] =>
      turns.map(([value, against]) => ({ value: value[figure], against: against[figure] }))
    const rate = EVENTS_PER_SECOND * SUBSCRIBERS
    return [
      ratioEntry(
        { name: `feed, ${SUBSCRIBERS} subscribers: against one shared buffer`, unit: 'deliveries/core-s' },
        of('perCoreSecond'),
        RATIO_BAR,
      ),
      figureEntry(
        { name: `feed, ${rate} deliveries/s: p99`, unit: 'ms' },
        Math.max(...turns.map(([own]) => own.p99Ms)),
        P99_BAR_MS,
      ),
      ratioEntry({ name: `feed, ${rate} deliveries/s: p99, beside one shared buffer`, unit: 'ms' }, of('p99Ms')),
      await idle(context),
    ]
  },
}

async function slice(kind: FeedServerKind, context: BenchContext): Promise<Slice> {
  const [server, clients] = [startYardstick(SERVER), startYardstick(CLIENTS)]
  try {
    const port = await server.ask<number>('open', kind)
    await clients.ask('connect', { port, count: SUBSCRIBERS } satisfies FeedCrowd)
    const pace = { perSecond: EVENTS_PER_SECOND }
    await server.ask<Measured>('run', { ...pace, events: EVENTS_PER_SECOND } satisfies FeedPace)
    await clients.ask<FeedSeen>('seen', null)
    context.signal.throwIfAborted()
    const events = EVENTS_PER_SECOND * (context.isQuick ? 2 : SECONDS)
    const told = await server.ask<Measured>('run', { ...pace, events } satisfies FeedPace)
    const seen = await clients.ask<FeedSeen>('seen', null)
    if (seen.deliveries !== events * SUBSCRIBERS)
      throw new Error(`${kind}: ${seen.deliveries} of ${events * SUBSCRIBERS} deliveries arrived`)
    return { perCoreSecond: seen.deliveries / told.cpuSeconds, p99Ms: seen.p99Ms }
  } finally {
    await clients.stop()
    await server.stop()
  }
}

async function idle(context: BenchContext): Promise<Entry> {
  context.say(`${IDLE_CLIENTS} idle clients`)
  const [server, clients] = [startYardstick(SERVER), startYardstick(CLIENTS)]
  try {
    const port = await server.ask<number>('open', 'gateway')
    await clients.ask('connect', { port, count: IDLE_CLIENTS } satisfies FeedCrowd)
    const mib = await server.ask<number>('residentMib', null)
    return figureEntry(
      { name: `feed, ${IDLE_CLIENTS} idle clients: memory of the process`, unit: 'MiB' },
      mib,
      IDLE_BAR_MIB,
    )
  } finally {
    await clients.stop()
    await server.stop()
  }
}
