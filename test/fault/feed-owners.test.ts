/**
 * Two ingest processes on one market: each feed has one owner at a time, whichever process is killed or frozen.
 *
 * Used to interleave the refreshes of a provider, whereupon the book called both incomplete. The processes share a simulated market
 * with refreshes of two portions; one of them is frozen until the other has its feeds, woken, and killed, again and again. The
 * log is compared with what a single writer would have written, and with the book's verdicts.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LagReader } from '#infra/kafka/lag.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { readFeedRecords } from './feed-records.ts'
import { lagOf } from './market-load.ts'

const BASE = fileURLToPath(new URL('../../infra/config/markets/base.json.gz', import.meta.url))
const ROUNDS = process.env.FAULT === 'long' ? 12 : 2
const ASKS = ['provider_01', 'provider_02', 'provider_03', 'provider_04', 'provider_05', 'provider_06']
const BIDS = ['provider_02', 'provider_04', 'provider_06']
const FEEDS = ASKS.length + BIDS.length
const POLL_MS = 2_000

describe('feeds of two ingest processes', function () {
  this.timeout(120_000 + ROUNDS * 150_000)
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let look: LagReader
  let folder: string
  let market: string
  let book: SpawnedRole
  let one: SpawnedRole
  let other: SpawnedRole

  before(async () => {
    kafka = platform.connect()
    look = await platform.openLagReader()
    folder = mkdtempSync(join(tmpdir(), 'marketlog-owners-'))
    market = join(folder, 'market.json')
    const feed = (side: string) => (provider: string) => {
      const options = { factor: 1, coverage: 0.95, churn: 0.1, stock: 3, phases: false }
      return { provider, side, connector: 'simulated', interval_ms: POLL_MS, options }
    }
    const feeds = [...ASKS.map(feed('ask')), ...BIDS.map(feed('bid'))]
    writeFileSync(market, JSON.stringify({ name: 'owners', base: BASE, seed: 7, items: 2_400, feeds }))
    book = await platform.spawnRole('book')
    one = await startIngest()
    await eventually(async () => (await owned(one)) === FEEDS, 'all feeds to be run')
  })
  after(async () => {
    rmSync(folder, { recursive: true, force: true })
  })

  const startIngest = () => platform.spawnRole('ingest', { MARKET: market })

  const owned = async (role: SpawnedRole) => (await role.metric('marketlog_ingest_feeds')) || 0
  const cuts = async (role: SpawnedRole) => (await role.metric('marketlog_ingest_refreshes_total', /result="cut"/)) || 0
  const linesOf = (role: SpawnedRole, pattern: RegExp) => role.lines().filter(line => pattern.test(line))

  /** Resolves when every feed has completed a refresh that was observed after this moment. */
  async function allGoOn(after: string): Promise<void> {
    const now = Date.now()
    // The position of a feed is in the transaction that ends its refresh; reading the refreshes again takes ever longer.
    const goOn = async () => {
      const advanced = await readTopic(kafka, 'feeds')
      const latest = new Map(advanced.map(({ key, value }) => [key, value.observed_at]))
      return latest.size === FEEDS && [...latest.values()].every(observedAt => observedAt > now)
    }
    await eventually(goOn, `all feeds to go on ${after}`)
  }

  it('share them when a second one starts, and those that stay go on without a break', async () => {
    await allGoOn('before the second')
    other = await startIngest()
    await eventually(async () => (await owned(other)) > 0, 'the second to be given feeds')
    const [ofOne, ofOther] = [await owned(one), await owned(other)]
    expect(ofOne + ofOther).to.equal(FEEDS)
    expect(Math.abs(ofOne - ofOther), 'the difference between the two').to.be.at.most(3)
    await allGoOn('with the second')
    const generations = linesOf(one, /ingest runs its feeds/).map(line => JSON.parse(line))
    expect(generations.slice(1).map(({ gained }) => gained)).to.deep.equal([0])
    expect(linesOf(one, /could not be written/)).to.deep.equal([])
    expect(await cuts(one), 'refreshes cut').to.be.at.most(generations.at(-1)?.lost)
  })

  for (let round = 1; round <= ROUNDS; round++) {
    it(`of one that freezes go to the other, and its writes are refused when it wakes (${round})`, async () => {
      one.kill('SIGSTOP')
      await eventually(async () => (await owned(other)) === FEEDS, 'the other to have all feeds')
      await allGoOn('while one is frozen')
      one.kill('SIGCONT')
      await one.line(/another process has taken the feed over/)
      await eventually(async () => (await owned(one)) > 0, 'the woken one to be given feeds')
      await eventually(async () => (await owned(one)) + (await owned(other)) === FEEDS, 'both to share')
      await allGoOn('after it woke')
    })

    it(`of one that is killed go to the other, and to its successor (${round})`, async () => {
      one.kill('SIGKILL')
      await one.ended
      await eventually(async () => (await owned(other)) === FEEDS, 'the other to have all feeds')
      one = await startIngest()
      await eventually(async () => (await owned(one)) > 0, 'the successor to be given feeds')
      await allGoOn('after the kill')
    })
  }

  it('are in the log as a single writer would have written them, and the book has taken every refresh', async () => {
    await one.stop()
    await other.stop()
    await eventually(async () => (await lagOf(look, 'book')) === 0, 'the book to reach the end')
    await book.stop()
    const { completed, cut, faults } = await readFeedRecords(kafka)
    const total = [...completed.values()].flat().length
    console.log(`      ${total} refreshes of ${completed.size} feeds, ${cut} cut`)
    expect(faults).to.deep.equal([])
    expect([...completed.values()].every(times => times.length > 5)).to.equal(true)
    const verdicts = (await readTopic(kafka, 'refreshes')).map(({ value }) => value)
    const refused = verdicts.filter(({ verdict }) => !['applied', 'quarantined'].includes(verdict))
    expect(refused.map(({ provider, refresh_id, verdict, reason }) => [provider, refresh_id, verdict, reason])).to.be
      .empty
    expect(verdicts).to.have.length(total)
    const rates = (await readTopic(kafka, 'fx')).length
    // The second process, and in each round one that goes and one that comes, twice.
    expect(rates, 'tables of exchange rates: one for each owner').to.be.within(1, 2 + 4 * ROUNDS)
  })
})
