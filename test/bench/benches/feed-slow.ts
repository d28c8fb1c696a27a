/**
 * What clients that read slowly or not at all cost those that read: 100 good ones alone, then beside 100 stalled and 100 slow ones, then alone
 * again. A client that is ended at its cap connects again at once; a run in which an event is missing, or a full one in which no client was
 * ended, fails.
 *
 * An event holds 100 items, so that a stalled client reaches its cap within a minute. The processes have a network of their own whose send
 * buffers are bounded as services/README.md advises for gateways: with Linux' own 4 MiB the kernel takes 400 MiB for stalled clients within
 * seconds.
 */
import { spawnSync } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import type { Baseline, Measured } from '../baseline.ts'
import type { FeedCrowd, FeedSeen } from '../baselines/feed-clients.ts'
import type { FeedMemory, FeedOpening, FeedPace } from '../baselines/feed-server.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type Entry, entryOf, median } from '../entry.ts'

const EACH = 100
const EVENTS_PER_SECOND = 30
const ITEMS = 100
const ITEM_BYTES = 110
const SLOW_SHARE = 1 / 3
const MIB = 2 ** 20
const CAP_BYTES = { full: 16 * MIB, quick: MIB }
/** Most bytes that the kernel keeps of a connection's unread ones: `net.ipv4.tcp_wmem` of that page. */
const SEND_BUFFERS = '4096 16384 262144'
const SETTING_UP = `ip link set lo up && echo '${SEND_BUFFERS}' > /proc/sys/net/ipv4/tcp_wmem && exec "$@"`
/** Begins the command line of the first process of a network, which ends with it: nothing of the machine's own is changed. */
const NEW_NETWORK = ['unshare', '--map-root-user', '--net', 'sh', '-c', SETTING_UP, 'sh'] as const
const SECONDS = { full: { alone: 25, beside: 100 }, quick: { alone: 11, beside: 21 } }

export const feedSlow: Bench = {
  name: 'feed-slow',
  about: 'what 100 stalled and 100 slow clients of the feed cost 100 good ones, and the process',
  async run(context) {
    requireOwnNetwork()
    const server = context.baseline('feed-server', NEW_NETWORK)
    const capBytes = CAP_BYTES[context.isQuick ? 'quick' : 'full']
    const port = await server.ask<number>('open', { kind: 'gateway', capBytes } satisfies FeedOpening)
    return withClients(context, server, port)
  },
}

/** Throws where this machine lets none be made: what is measured without one is another thing. */
function requireOwnNetwork(): void {
  const [program, ...options] = NEW_NETWORK
  const { status, error, stderr } = spawnSync(program, [...options, 'true'], { timeout: 5_000, encoding: 'utf8' })
  if (status === 0) return
  const reason = error?.message ?? stderr.trim()
  throw new Error(`feed-slow: no network namespace can be made, and it means nothing without one: ${reason}`)
}

/**
 * Elsewhere bad clients would have machines of their own: here they take what processor time is left. With the lowest
 * priority alone, for machines without chrt, one of them that runs keeps a good one waiting for the rest of its slice, 3 ms.
 */
function giveWay(pid: number): void {
  setPriority(pid, constants.priority.PRIORITY_LOW)
  spawnSync('chrt', ['--all-tasks', '--idle', '--pid', '0', String(pid)])
}

async function withClients(context: BenchContext, server: Baseline, port: number): Promise<Entry[]> {
  const beside = ['nsenter', '--user', '--net', '--preserve-credentials', '--target', String(server.pid)]
  const [good, bad] = [context.baseline('feed-clients', beside), context.baseline('feed-clients', beside)]
  if (bad.pid !== undefined) giveWay(bad.pid)
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
  const against = median([...before.windowsP99Ms, ...after.windowsP99Ms])
  const turns = within.windowsP99Ms.map(value => ({ value, against }))
  const added = within.peakMib - before.peakMib
  return [
    entryOf('feed, stalled and slow clients: p99 of good ones, against alone', 'ms', turns),
    entryOf('feed, stalled and slow clients: memory they add', 'MiB', added),
  ]
}

interface Phase {
  /** Of each window of five seconds: a stall of the machine spoils one of them, and not the figure. */
  windowsP99Ms: number[]
  peakMib: number
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
