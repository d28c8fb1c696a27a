/**
 * The TypeScript client, whose connections end at drawn bytes, beside a stream whose connection is never broken.
 *
 * A feed must hand on every change once, in the order of its row, whether it has a key or tokens. A live book must have the rows of
 * `GET /prices` after each break, and its changes must lead to the same rows.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { type FeedOptions, Marketlog } from '#services/clients/typescript/src/marketlog.ts'
import {
  type Cuts,
  changesOf,
  type FeedMarket,
  momentOf,
  openCuts,
  openFeedMarket,
  rowsOf,
} from '#test/fixtures/cut-streams.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy, type WireProxy } from '#test/harness/wire-proxy.ts'

const CUTS = 50
const FEEDS = 6
const BOOKS = 3
const REFRESH_EVERY_MS = 100
/** Connections may end within the headers of their answer many times in a row. */
const RETRIES = 50

interface Received {
  event: string
  data: unknown
}

describe('the TypeScript client whose connections end at drawn bytes', function () {
  this.timeout(600_000)
  const platform = useServers({ catalog: 'whole' })
  let feed: FeedMarket
  let api: StartedRoles
  let cuts: Cuts
  let closing: (() => Promise<unknown>)[]

  before(async () => {
    feed = await openFeedMarket(platform, 'clients that are cut')
    api = await platform.startRoles(['api'], { tiersFile: writeRoomyTiers(platform.config.stateDir) })
    await api.ready()
  })
  beforeEach(() => {
    cuts = openCuts(feed.market.random, CUTS)
    closing = []
  })
  afterEach(async () => {
    for (const close of closing) await close()
  })
  after(() => feed.unbroken.close())

  /** A client behind a line of its own. */
  async function openClient(isTokenUsed = false): Promise<{ client: Marketlog; proxy: WireProxy }> {
    const proxy = await openWireProxy()
    closing.push(() => proxy.close())
    proxy.forwardTo(Number(new URL(feed.base).port))
    const key = await platform.newKey()
    const credential = isTokenUsed ? { feedToken: () => feed.tokenOf(key) } : { key }
    const baseUrl = `http://127.0.0.1:${proxy.port}`
    return { proxy, client: new Marketlog({ baseUrl, retries: RETRIES, ...credential }) }
  }

  const moveOn = async (): Promise<void> => {
    await feed.market.refresh('ask')
    await pause(REFRESH_EVERY_MS)
  }

  it('hands on every change once, in the order of its row', async () => {
    const { unbroken } = feed
    const from = unbroken.events.length
    let breaks = 0
    const streams: Received[][] = []
    for (let at = 0; at < FEEDS; at++) {
      const { client, proxy } = await openClient(at % 2 === 1)
      proxy.endWithin(() => cuts.draw(false))
      const ending = new AbortController()
      const received: Received[] = []
      streams.push(received)
      const read = async (): Promise<void> => {
        const options: FeedOptions = { signal: ending.signal, onBreak: () => void breaks++ }
        for await (const { type, data } of client.feed.prices({}, options)) received.push({ event: type, data })
      }
      const reading = read().catch(error => {
        if (!ending.signal.aborted) received.push({ event: 'failed', data: String(error) })
      })
      closing.unshift(async () => {
        ending.abort()
        await reading
      })
      await eventually(() => received.length > 0, 'ready')
    }
    while (!cuts.areMade() || breaks < CUTS / 2) await moveOn()
    const last = await feed.lastMoment()
    const haveLast = () => streams.every(received => momentOf(received.at(-1)) === last)
    await eventually(haveLast, 'the last refresh at every client')
    console.log(`      connections ended: ${cuts.about()}; breaks of open feeds: ${breaks}`)
    const kinds = new Set(streams.flat().map(({ event }) => event))
    expect([...kinds]).to.have.members(['ready', 'prices.changed'])
    const own = (at: number) => (entry: LedgerEntry) => ({ ...entry, key: `${at} ${entry.key}` })
    const expected = streams.flatMap((_, at) => changesOf(unbroken.events.slice(from)).map(own(at)))
    const actual = streams.flatMap((received, at) => changesOf(received).map(own(at)))
    expectBalanced({ [`${FEEDS} feeds`]: openLedger(expected, actual, FEEDS * 500) })
  })

  it('has the rows of GET /prices after each break of a live book', async () => {
    const reader = new Marketlog({ baseUrl: api.baseUrl, key: await platform.newKey() })
    // Most connections that begin with the state would end within it.
    const openingCuts = openCuts(feed.market.random, CUTS / 5)
    let [breaks, comparisons] = [0, 0]
    const books: { rows(): string[]; folded(): string[] }[] = []
    for (let at = 0; at < BOOKS; at++) {
      const { client, proxy } = await openClient()
      proxy.endWithin(() => openingCuts.draw(true))
      const book = await client.liveBook({}, { onBreak: () => void breaks++ })
      proxy.cut()
      proxy.heal()
      proxy.endWithin(() => cuts.draw(false))
      const folded = new Map<string, string>()
      const rows = () => book.asks().map(rowOf)
      for (const row of rows()) folded.set(row.slice(0, row.indexOf(':')), row)
      const fold = async (): Promise<void> => {
        for await (const ask of book.changes()) {
          const row = rowOf(ask)
          const key = row.slice(0, row.indexOf(':'))
          if (ask.price === null) folded.delete(key)
          else folded.set(key, row)
        }
      }
      const folding = fold()
      books.push({ rows: () => rows().sort(), folded: () => [...folded.values()].sort() })
      closing.unshift(async () => {
        await book.close()
        await folding
      })
    }
    const compare = async (): Promise<void> => {
      await feed.lastMoment()
      await eventually(async () => {
        const listed: string[] = []
        for await (const row of reader.pages('listPrices'))
          listed.push(rowOf({ ...row, price: row.lowest_ask, qty: row.quantity }))
        listed.sort()
        for (const { rows, folded } of books) {
          expect(rows()).to.deep.equal(listed)
          expect(folded()).to.deep.equal(listed)
        }
        comparisons += 1
        return true
      }, 'the rows of GET /prices in every book')
    }
    for (let compared = 0; !cuts.areMade() || compared < breaks; ) {
      await moveOn()
      if (compared === breaks) continue
      compared = breaks
      await compare()
    }
    await compare()
    console.log(`      connections ended: ${openingCuts.about()} at first, then ${cuts.about()}`)
    console.log(`      breaks of open books: ${breaks}, comparisons: ${comparisons}`)
    expect(comparisons).to.be.at.least(CUTS / 5)
    const entryOf = (at: number) => (row: string) => ({
      key: `${at} ${row.split(':')[0]}`,
      what: String(row.split(':')[1]),
    })
    const truth = rowsOf([feed.unbroken.events], true).map(({ key, what }) => `${key}:${what}`)
    expectBalanced({
      [`${BOOKS} live books`]: openLedger(
        books.flatMap((_, at) => truth.map(entryOf(at))),
        books.flatMap(({ rows }, at) => rows().map(entryOf(at))),
        BOOKS * 100,
      ),
    })
  })
})

const rowOf = (row: { provider: string; item_id: number; price: number | null; qty: number }): string =>
  `${row.provider} ${row.item_id}:${row.price} ${row.qty}`
