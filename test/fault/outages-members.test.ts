/**
 * A rebalance storm: members of the groups of `book` and `live-view` come and go every three seconds under load.
 *
 * One process of each role stays; up to three more members join and leave. Each join and each leave is a rebalance of its group
 * that revokes every partition. At the end everything that the two roles wrote is compared with the reference fold: nothing
 * lost, nothing doubled, order kept. `FAULT=long` storms for three minutes.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { LagReader } from '#services/cli/wait-for-views.ts'
import { leastOf, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced } from '#test/harness/ledger.ts'
import { givenOf } from '#test/harness/published-records.ts'
import { foldRefreshes } from '#test/harness/reference-fold.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { bookLedgers } from './book-ledgers.ts'
import { type Kept, keepRunning } from './keep-running.ts'
import { groupsDrained, lagOf } from './lag.ts'
import { startLoad } from './market-load.ts'
import { liveLedgers } from './view-ledgers.ts'

const IS_LONG = process.env.FAULT === 'long'
const STORM_MS = IS_LONG ? 180_000 : 18_000
const EVERY_MS = 3_000
const MEMBERS_MORE = 3
const DRAIN_LIMIT_MS = 60_000
const GROUPS = ['book', 'live-view'] as const

describe('a rebalance storm', function () {
  this.timeout(IS_LONG ? 1_200_000 : 240_000)
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let publisher: Publisher
  let look: LagReader
  const kept: Kept[] = []

  before(async () => {
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
    look = await platform.openLagReader()
  })
  after(async () => {
    for (const one of kept) await one.stop()
  })

  /** Members of a group come and go until the storm is over; resolves with how often each happened. */
  async function storm(group: (typeof GROUPS)[number], random: SeededRandom, until: number) {
    const members: StartedRoles[] = []
    const moves = { joined: 0, left: 0 }
    for (let next = performance.now(); next < until; next += EVERY_MS) {
      await pause(Math.max(0, next - performance.now()))
      const isJoin = members.length === 0 || (members.length < MEMBERS_MORE && random.chance(0.5))
      if (isJoin) {
        members.push(await platform.startRoles([group]))
        moves.joined += 1
      } else {
        const [leaving] = members.splice(random.integer(0, members.length - 1), 1)
        await leaving?.stop()
        moves.left += 1
      }
    }
    for (const member of members) await member.stop()
    return `${group}: ${moves.joined} joined and ${moves.left} left`
  }

  it('loses, doubles and misplaces nothing', async () => {
    const random = seededRandom('a rebalance storm')
    const newRandom = () => randomOf(random.integer(0, 2 ** 31))
    for (const name of GROUPS) {
      kept.push(keepRunning({ name, random: newRandom(), start: () => platform.spawnRole(name) }))
    }
    await eventually(() => kept.every(one => one.isReady()), 'both roles to be ready')
    const feeds = openSeededMarket(newRandom(), { items: 600, askProviders: 7, bidProviders: 4 })
    const load = startLoad({
      feeds,
      publisher,
      codec: kafka.codec,
      random: newRandom(),
      recordsPerSecond: 2_000,
      backlog: () => lagOf(look, 'book'),
    })
    const until = performance.now() + STORM_MS
    const stories = await Promise.all(GROUPS.map(group => storm(group, newRandom(), until)))
    const refreshes = await load.end()
    await groupsDrained(look, GROUPS, DRAIN_LIMIT_MS)
    const expected = foldRefreshes(refreshes.map(givenOf))
    const { ledgers } = await bookLedgers(kafka, refreshes, undefined, leastOf(feeds))
    const redis = await platform.openRedis()
    Object.assign(ledgers, await liveLedgers(redis, platform.namespace, expected, leastOf(feeds)))
    console.log(`      ${stories.join('; ')}; ${load.published()} records, ${expected.changes.length} changes`)
    expectBalanced(ledgers)
    expect(kept.map(one => one.endedByThemselves())).to.deep.equal([0, 0])
  })
})
