/**
 * The book under kill: what its topics hold is what a reference fold of the same refreshes says.
 *
 * Two processes share the group while a seeded market is published. They are killed with SIGKILL and
 * frozen beyond their session at random moments; then the log is drained and read by the platform's reader and,
 * where a JDK is at hand, by Kafka's own client. Nothing may be lost, doubled, phantom or out of order.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { LagReader } from '#services/cli/wait-for-views.ts'
import { leastOf, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'
import { expectBalanced } from '#test/harness/ledger.ts'
import { randomOf, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { bookLedgers } from './book-ledgers.ts'
import { type KillPlan, killAndFreeze } from './kill-and-freeze.ts'
import { lagOf } from './lag.ts'
import { startLoad } from './market-load.ts'
import { faultScale } from './scale.ts'

const DRAIN_LIMIT_MS = 60_000

describe('book under kill', function () {
  const scale = faultScale()
  this.timeout(scale.limitMs)
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let publisher: Publisher
  let look: LagReader

  before(async () => {
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
    look = await platform.openLagReader()
  })

  it('loses, doubles, invents and misplaces nothing', async () => {
    const random = seededRandom('book under kill')
    const feeds = openSeededMarket(randomOf(random.integer(0, 2 ** 31)), {
      items: scale.items,
      askProviders: 9,
      bidProviders: 5,
    })
    const backlog = () => lagOf(look, 'book')
    const load = startLoad({
      feeds,
      publisher,
      backlog,
      codec: kafka.codec,
      recordsPerSecond: scale.recordsPerSecond,
      random: randomOf(random.integer(0, 2 ** 31)),
    })
    const plan: KillPlan = {
      role: 'book',
      processes: 2,
      kills: scale.kills,
      freezes: scale.freezes,
      pauseMs: [500, 4_000],
      intoWorkMs: [0, 700],
      start: () => platform.spawnRole('book'),
      backlog,
      work: load.wave,
    }
    const run = platform.keep(killAndFreeze(randomOf(random.integer(0, 2 ** 31)), plan))
    const report = await run.done
    const refreshes = await load.end()
    const endedAt = performance.now()
    await eventually(async () => (await backlog()) === 0, 'the book to reach the end of its input')
    const limit = { atMost: DRAIN_LIMIT_MS / 1_000 }
    const value = (performance.now() - endedAt) / 1_000
    expectFigure({ test: 'book under kill', what: 'until the end of the input', value, unit: 's', limit })
    await run.stop()

    const { ledgers, aborted } = await bookLedgers(kafka, refreshes, await findJavaReader(), leastOf(feeds))
    const kinds = Object.entries(Object.groupBy(refreshes, ({ ending }) => ending)).map(
      ([ending, of]) => `${of.length} ${ending}`,
    )
    console.log(
      `      ${report.kills} kills and ${report.freezes} freezes in ${report.seconds} s, ${report.underLoad} of them under ` +
        `load; ${report.endedByThemselves} ended by themselves; ${aborted ?? '?'} records of cut transactions`,
    )
    console.log(`      ${load.published()} records in ${refreshes.length} refreshes: ${kinds.join(', ')}`)
    expectBalanced(ledgers)
    expect(report).to.include({ kills: scale.kills, freezes: scale.freezes })
    expect(report.endedByThemselves, 'ends without a kill or freeze').to.be.at.most(scale.kills + scale.freezes)
    expect(report.underLoad, 'kills and freezes while records waited').to.be.greaterThan(0)
  })
})
