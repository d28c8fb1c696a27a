/**
 * Fan-out of the feed against a plain Node server that writes one shared buffer, and beside nchan where it is installed.
 *
 * 1,000 clients in a process of their own, 100 events a second: 100,000 deliveries a second. The servers run in turns,
 * each in its own process; what counts is deliveries per second of the server's CPU. An event that was not
 * delivered to every client fails the run. All turns together are compared, not turn by turn: a write to a client
 * that sleeps costs half as much again as one to a client that is reading, and a turn falls into one or the other by chance.
 */
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { figureEntry, ratioEntry } from '../entry.ts'
import { median } from '../statistics.ts'
import { type Measured, startYardstick } from '../yardstick.ts'
import type { FeedCrowd, FeedSeen } from '../yardsticks/feed-clients.ts'
import type { FeedPace } from '../yardsticks/feed-server.ts'

const SERVER = new URL('../yardsticks/feed-server.ts', import.meta.url)
const NCHAN = new URL('../yardsticks/nchan-server.ts', import.meta.url)
const CLIENTS = new URL('../yardsticks/feed-clients.ts', import.meta.url)
const SUBSCRIBERS = 1_000
const EVENTS_PER_SECOND = 100
const TURNS = 6
const SECONDS = 3
const RATIO_BAR = 0.7
const P99_BAR_MS = 250
const NO_NCHAN =
  'nchan is not measured, since nginx with its module is not installed: apt-get install nginx libnginx-mod-nchan (Debian, Ubuntu) brings both'

type Kind = 'gateway' | 'plain' | 'nchan'

interface Slice {
  deliveries: number
  cpuSeconds: number
  p99Ms: number
}

/** Deliveries of the feed. */
export const feed: Bench = {
  name: 'feed',
  about: 'deliveries of the feed to 1,000 subscribers, against plain Node that writes one shared buffer, and nchan',
  async run(context) {
    const slices: Record<Kind, Slice[]> = { gateway: [], plain: [], nchan: [] }
    for (let turn = 0; turn < (context.isQuick ? 1 : TURNS); turn++) {
      context.say(`turn ${turn + 1}`)
      // Who comes first differs: a machine that warms up or tires does so for both.
      const order: Kind[] = turn % 2 === 0 ? ['gateway', 'plain', 'nchan'] : ['plain', 'gateway', 'nchan']
      for (const kind of order) {
        const found = await slice(kind, context)
        if (found) slices[kind].push(found)
        context.log.info({ turn, kind, found }, 'feed')
      }
    }
    if (slices.nchan.length === 0) context.log.warn(NO_NCHAN)
    return entriesOf(slices)
  },
}

function entriesOf({ gateway, plain, nchan }: Record<Kind, Slice[]>): Entry[] {
  const sum = (slices: readonly Slice[], of: 'deliveries' | 'cpuSeconds') =>
    slices.reduce((all, one) => all + one[of], 0)
  const rateOf = (slices: readonly Slice[]) => sum(slices, 'deliveries') / sum(slices, 'cpuSeconds')
  const worst = (slices: readonly Slice[]) => Math.max(...slices.map(({ p99Ms }) => p99Ms))
  const usual = (slices: readonly Slice[]) => median(slices.map(({ p99Ms }) => p99Ms))
  const costs = (name: string, against: readonly Slice[], bar: number | null = null) =>
    ratioEntry(
      { name: `feed, ${SUBSCRIBERS} subscribers: ${name}`, unit: 'deliveries/core-s' },
      [{ value: rateOf(gateway), against: rateOf(against) }],
      bar,
    )
  const p99 = `feed, ${EVENTS_PER_SECOND * SUBSCRIBERS} deliveries/s: p99`
  const beside = (name: string, of: typeof usual, against: readonly Slice[]) =>
    ratioEntry({ name: `${p99}${name}`, unit: 'ms' }, [{ value: of(gateway), against: of(against) }])
  return [
    costs('against one shared buffer', plain, RATIO_BAR),
    ...(nchan.length > 0 ? [costs('beside nchan', nchan)] : []),
    // The median of the turns; the worst tells of the machine as well.
    figureEntry({ name: p99, unit: 'ms' }, usual(gateway), P99_BAR_MS),
    beside(', beside one shared buffer', usual, plain),
    beside(' of the worst turn, beside one shared buffer', worst, plain),
    ...(nchan.length > 0 ? [beside(', beside nchan', usual, nchan)] : []),
  ]
}

/** Undefined where the server is not installed. */
async function slice(kind: Kind, context: BenchContext): Promise<Slice | undefined> {
  const [server, clients] = [startYardstick(kind === 'nchan' ? NCHAN : SERVER), startYardstick(CLIENTS)]
  try {
    const port = await server.ask<number | null>('open', { kind })
    if (port === null) return undefined
    await clients.ask('connect', { port, count: SUBSCRIBERS } satisfies FeedCrowd)
    const pace = { perSecond: EVENTS_PER_SECOND }
    await server.ask<Measured>('run', { ...pace, events: EVENTS_PER_SECOND } satisfies FeedPace)
    await clients.ask<FeedSeen>('seen', null)
    context.signal.throwIfAborted()
    const events = EVENTS_PER_SECOND * (context.isQuick ? 2 : SECONDS)
    const { cpuSeconds } = await server.ask<Measured>('run', { ...pace, events } satisfies FeedPace)
    const { deliveries, p99Ms } = await clients.ask<FeedSeen>('seen', null)
    if (deliveries !== events * SUBSCRIBERS)
      throw new Error(`${kind}: ${deliveries} of ${events * SUBSCRIBERS} deliveries arrived`)
    return { deliveries, cpuSeconds, p99Ms }
  } finally {
    await clients.stop()
    await server.stop()
  }
}
