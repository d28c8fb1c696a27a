/**
 * What 10,000 clients that only listen cost: memory and CPU of the role `feed`, alone in its process as it runs.
 *
 * Two connections of each of 5,000 keys, as many as a key may hold: keys are checked again and leases renewed as in
 * production, and pings go out. Memory is the most that was seen after all had connected.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { FeedCrowd } from '../baselines/feed-clients.ts'
import type { Bench } from '../bench.ts'
import { makeKeys } from '../bench-platform.ts'
import { entryOf } from '../entry.ts'

const CLIENTS_MAX = { full: 10_000, quick: 1_000 }
const PER_KEY = 2
const LOOKS = { full: 15, quick: 4 }
const LOOK_EVERY_MS = 2_000

export const feedIdle: Bench = {
  name: 'feed-idle',
  about: 'memory and CPU of the feed with 10,000 clients that only listen',
  async run(context) {
    const size = context.isQuick ? 'quick' : 'full'
    const count = CLIENTS_MAX[size]
    const platform = await context.platform()
    const clients = context.baseline('feed-clients')
    const role = await platform.role('feed')
    await role.ready()
    context.say(`making ${count / PER_KEY} keys`)
    const keys = await makeKeys(platform, count / PER_KEY)
    context.say(`connecting ${count} clients`)
    await clients.ask('connect', { port: role.port, count, keys } satisfies FeedCrowd)
    const connected = await role.figures()
    const startedAt = performance.now()
    let peakMib = connected.residentMib
    for (let look = 0; look < LOOKS[size]; look++) {
      context.signal.throwIfAborted()
      context.say(`${count} clients are idle`)
      await pause(LOOK_EVERY_MS)
      peakMib = Math.max(peakMib, (await role.figures()).residentMib)
    }
    const { cpuSeconds } = await role.figures()
    const cores = ((cpuSeconds - connected.cpuSeconds) * 1_000) / (performance.now() - startedAt)
    const open = await role.metric('feed_connections')
    if (open !== count) throw new Error(`${open} of ${count} streams are open`)
    const name = `feed, ${count} idle clients`
    return [entryOf(`${name}: memory of the role`, 'MiB', peakMib), entryOf(`${name}: CPU`, 'cores', cores)]
  },
}
