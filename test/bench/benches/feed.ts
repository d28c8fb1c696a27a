/**
 * Fan-out of the feed against a plain Node server that writes one shared buffer, and beside nchan: deliveries a second of the server's CPU,
 * 1,000 clients and 100 events a second.
 *
 * An event that was not delivered to every client fails the run. All turns together are compared, not turn by turn: a write to a client that
 * sleeps costs half as much again as one to a client that is reading, and a turn falls into one or the other by chance.
 */
import { existsSync } from 'node:fs'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { installPackages } from '#infra/stack/system-packages.ts'
import type { Measured } from '../baseline.ts'
import type { FeedCrowd, FeedSeen } from '../baselines/feed-clients.ts'
import type { FeedPace } from '../baselines/feed-server.ts'
import type { NchanPrograms } from '../baselines/nchan-server.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type Entry, entryOf } from '../entry.ts'

const NGINX = ['/usr/sbin/nginx', '/usr/local/sbin/nginx', '/usr/bin/nginx']
const MODULES = ['/usr/lib/nginx/modules/ngx_nchan_module.so', '/usr/lib64/nginx/modules/ngx_nchan_module.so']
const SUBSCRIBERS = 1_000
const EVENTS_PER_SECOND = 100
const TURNS = 6
const SECONDS = 3
const KINDS = ['gateway', 'plain', 'nchan'] as const

type Kind = (typeof KINDS)[number]

interface Slice {
  deliveries: number
  cpuSeconds: number
  p99Ms: number
}

export const feed: Bench = {
  name: 'feed',
  about: 'deliveries of the feed to 1,000 subscribers, against plain Node that writes one shared buffer, and nchan',
  async run(context) {
    const programs = await provideNchan(context)
    const slices: Record<Kind, Slice[]> = { gateway: [], plain: [], nchan: [] }
    for (let turn = 0; turn < (context.isQuick ? 1 : TURNS); turn++) {
      context.say(`turn ${turn + 1}`)
      // Each comes first as often: a machine that warms up or tires does so for all.
      const first = turn % KINDS.length
      for (const kind of [...KINDS.slice(first), ...KINDS.slice(0, first)]) {
        slices[kind].push(await slice(kind, programs, context))
      }
    }
    return entriesOf(slices)
  },
}

/** Paths of nginx and of its module; throws a named error where they are not there and may not be installed. */
async function provideNchan({ say, signal }: BenchContext): Promise<NchanPrograms> {
  const find = (): NchanPrograms | undefined => {
    const [program, module] = [NGINX.find(existsSync), MODULES.find(existsSync)]
    return program && module ? { program, module } : undefined
  }
  const tools = { cacheDir: cacheDirectory(process.env), environment: process.env, say, signal }
  const missing = 'feed: nchan is missing: nginx and its module are needed'
  return find() ?? installPackages(tools, ['nginx', 'libnginx-mod-nchan'], missing, find)
}

function entriesOf({ gateway, plain, nchan }: Record<Kind, Slice[]>): Entry[] {
  const sum = (slices: readonly Slice[], of: 'deliveries' | 'cpuSeconds') =>
    slices.reduce((all, one) => all + one[of], 0)
  const rateOf = (slices: readonly Slice[]) => sum(slices, 'deliveries') / sum(slices, 'cpuSeconds')
  const costs = (name: string, others: readonly Slice[]) =>
    entryOf(`feed, ${SUBSCRIBERS} subscribers: ${name}`, 'deliveries/core-s', [
      { value: rateOf(gateway), against: rateOf(others) },
    ])
  const latencies = gateway.map(({ p99Ms }) => p99Ms)
  return [
    costs('against one shared buffer', plain),
    costs('beside nchan', nchan),
    entryOf(`feed, ${EVENTS_PER_SECOND * SUBSCRIBERS} deliveries/s: p99`, 'ms', latencies),
  ]
}

async function slice(kind: Kind, programs: NchanPrograms, context: BenchContext): Promise<Slice> {
  const server = context.baseline(kind === 'nchan' ? 'nchan-server' : 'feed-server')
  const clients = context.baseline('feed-clients')
  const port = await server.ask<number>('open', kind === 'nchan' ? programs : { kind })
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
  await Promise.all([clients.stop(), server.stop()])
  return { deliveries, cpuSeconds, p99Ms }
}
