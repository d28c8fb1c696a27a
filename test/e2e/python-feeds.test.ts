/**
 * Feeds, replays and books of the Python package whose connections end at drawn bytes, beside a stream whose connection is never broken.
 *
 * Programs print the changes that they were given. A feed must have every change once, each item's in its order, and so must a replay of all
 * of it; a book must end with the rows that the API lists.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import {
  type Cuts,
  changesOf,
  type FeedMarket,
  momentOf,
  openCuts,
  openFeedMarket,
} from '#test/fixtures/cut-streams.ts'
import {
  describeWithPython,
  openPythonPackage,
  type PythonPackage,
  type PythonProgram,
} from '#test/fixtures/python-package.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, type Ledger, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { openSse } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy, type WireProxy } from '#test/harness/wire-proxy.ts'

const LIMIT_MS = 600_000
const CUTS = 50
const REPLAY_CUTS = 6
const REFRESH_EVERY_MS = 100
const CLIENTS = ['sync', 'async'] as const
/** Before the market's first moment. */
const LONG_AGO = '2026-03-01'

interface Follower {
  program: PythonProgram
  proxy: WireProxy
}

interface Row {
  provider: string
  item_id: number
  price: number
  quantity: number
}

const entryOf = ({ provider, item_id, price, quantity }: Row): LedgerEntry => ({
  key: `${provider} ${item_id}`,
  what: `${price} ${quantity}`,
})

describeWithPython('feeds of the Python package', function () {
  this.timeout(LIMIT_MS)
  const platform = useServers({ catalog: 'whole' })
  let own: PythonPackage
  let feed: FeedMarket
  let api: string
  let key: string
  const followers: Follower[] = []

  before(async () => {
    own = await openPythonPackage()
    feed = await openFeedMarket(platform, 'a Python program')
    const roles = await platform.startRoles(['provider-health', 'api'])
    await roles.ready()
    api = roles.baseUrl
    key = await platform.newKey()
  })
  after(async () => {
    for (const { program, proxy } of followers) {
      await program.stop()
      await proxy.close()
    }
    feed?.unbroken.close()
    own?.close()
  })

  async function openFollower(client: string, kind: string, start: string, cuts: Cuts): Promise<PythonProgram> {
    const proxy = await openWireProxy()
    proxy.forwardTo(Number(new URL(feed.base).port))
    proxy.endWithin(() => cuts.draw(kind === 'book'))
    const url = `http://127.0.0.1:${proxy.port}`
    const environment = { MARKETLOG_KEY: await platform.newKey() }
    const program = own.start('follow_feed.py', [client, kind, url, start], environment)
    followers.push({ program, proxy })
    return program
  }

  async function nowPosition(): Promise<string> {
    const stream = await openSse(`${feed.base}/feed/prices?resume=true`, { key })
    const { id = '' } = await stream.event(({ event }) => event === 'ready')
    stream.close()
    return id
  }

  /** The rows that the API lists. */
  async function listedRows(): Promise<Row[]> {
    const rows: Row[] = []
    for (let hasNext = true; hasNext; ) {
      const answer = await fetch(`${api}/prices?offset=${rows.length}`, { headers: { authorization: `Bearer ${key}` } })
      const { items, pagination } = (await answer.json()) as {
        items: { provider: string; item_id: number; lowest_ask: number; quantity: number }[]
        pagination: { has_next: boolean }
      }
      rows.push(...items.map(({ lowest_ask, ...row }) => ({ ...row, price: lowest_ask })))
      hasNext = pagination.has_next
    }
    return rows
  }

  async function bookRows(program: PythonProgram): Promise<Row[]> {
    const before = program.lines.length
    program.write('rows')
    await eventually(() => program.lines.length > before || program.complaints() !== '', 'the rows of a book')
    expect(program.complaints()).to.equal('')
    return program.lines.at(-1).rows
  }

  it('lose nothing and repeat nothing, and books are those of the API', async () => {
    const { market, unbroken } = feed
    for (let at = 0; at < 20; at++) await market.refresh('ask')
    await feed.lastMoment()
    const cuts = openCuts(market.random, CUTS)
    const start = await nowPosition()
    const from = unbroken.events.length
    const feeds = await Promise.all(CLIENTS.map(client => openFollower(client, 'prices', start, cuts)))
    const books = await Promise.all(CLIENTS.map(client => openFollower(client, 'book', '', cuts)))
    while (!cuts.areMade()) {
      await market.refresh('ask')
      await pause(REFRESH_EVERY_MS)
      for (const { complaints } of [...feeds, ...books]) expect(complaints()).to.equal('')
    }
    const last = await feed.lastMoment()
    await eventually(
      () => feeds.every(({ lines }) => momentOf(lines.at(-1)) === last),
      'the last refresh at every feed',
    )
    const listed = (await listedRows()).map(entryOf)
    const ledgers: [string, Ledger][] = feeds.map(({ lines }, at) => [
      `feed, ${CLIENTS[at]}`,
      openLedger(changesOf(unbroken.events.slice(from)), changesOf(lines), 1_000),
    ])
    for (const [at, program] of books.entries()) {
      const ledger = await eventually(async () => {
        const compared = openLedger(listed, (await bookRows(program)).map(entryOf), 500)
        expect(compared.examples, `${CLIENTS[at]}`).to.deep.equal([])
        return compared
      }, 'the rows of the API in a book')
      ledgers.push([`book, ${CLIENTS[at]}`, ledger])
    }
    console.log(`      connections ended: ${cuts.about()}`)
    expectBalanced(Object.fromEntries(ledgers))
  })

  it('replay all of it once', async () => {
    const { market, unbroken } = feed
    const cuts = openCuts(market.random, REPLAY_CUTS)
    const replays = await Promise.all(CLIENTS.map(client => openFollower(client, 'replay', LONG_AGO, cuts)))
    await eventually(
      () => replays.every(({ lines, complaints }) => lines.at(-1)?.event === 'end' || complaints() !== ''),
      'the end of the replays',
    )
    for (const { complaints } of replays) expect(complaints()).to.equal('')
    console.log(`      connections ended: ${cuts.about()}`)
    const ledgerOf = ({ lines }: PythonProgram): Ledger =>
      openLedger(changesOf(unbroken.events), changesOf(lines), 2_000)
    expectBalanced(Object.fromEntries(replays.map((program, at) => [`replay, ${CLIENTS[at]}`, ledgerOf(program)])))
  })
})
