/**
 * Clients of every mode whose connections end at drawn bytes while gateways are killed, beside one whose connection is never broken.
 *
 * An EventSource written to the standard keeps the id of the last whole event and comes back with it; the TypeScript client does so by
 * itself, and keeps a live book. Connections end before the first event, right after `ready`, within events and within the state. A stream
 * that resumes must have every change once, one without ids no gap within a connection, and one that begins with the state end with the
 * rows of the market, as must a live book and what its changes lead to.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { EventSource } from 'eventsource'
import { type Ask, Marketlog } from '#services/clients/typescript/src/marketlog.ts'
import {
  type Cuts,
  changesBetween,
  changesOf,
  type FeedEvent,
  type FeedMarket,
  momentOf,
  openCuts,
  openFeedMarket,
  rowsOf,
} from '#test/fixtures/cut-streams.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, type Ledger, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy } from '#test/harness/wire-proxy.ts'

const CUTS = 200
const CLIENTS_OF_A_MODE = 4
const KILLS = 6
const REFRESH_EVERY_MS = 100
/** Connections may end within the headers of their answer many times in a row. */
const RETRIES = 50

/** Each mode asks for this, and its ledger holds that. */
const MODES = {
  plain: { open: openSource, query: '', holds: 'connections' },
  resume: { open: openSource, query: 'resume=true', holds: 'changes' },
  token: { open: openSource, query: 'resume=true', holds: 'changes' },
  'snapshot with resume': { open: openSource, query: 'resume=true&snapshot=true', holds: 'rows' },
  conflate: { open: openSource, query: 'snapshot=true&policy=conflate', holds: 'rows' },
  'client with a key': { open: openClientFeed, query: '', holds: 'changes' },
  'client with a token': { open: openClientFeed, query: '', holds: 'changes' },
  'live book': { open: openBook, query: 'snapshot', holds: 'rows' },
} as const

type Mode = keyof typeof MODES

const ALL_MODES = Object.keys(MODES) as Mode[]

interface Reader {
  /** Its events, by connection where it shows them. */
  connections: FeedEvent[][]
  /** Of a book. */
  rows?(): LedgerEntry[]
  hasMoment(moment: string): boolean
  close(): Promise<unknown>
}

interface Opening {
  baseUrl: string
  query: string
  key: string
  /** Instead of the key, where the mode has one. */
  token: (() => Promise<string>) | undefined
}

type Client = Reader & { mode: Mode; goTo(base: string): void }

describe('feeds whose connections end at drawn bytes', function () {
  this.timeout(600_000)
  const platform = useServers({ catalog: 'whole' })
  const clients: Client[] = []
  let feed: FeedMarket
  let cuts: Cuts

  before(async () => {
    feed = await openFeedMarket(platform, 'feeds that are cut')
    cuts = openCuts(feed.market.random, CUTS)
  })
  after(async () => {
    for (const client of clients) await client.close()
    feed?.unbroken.close()
  })

  async function openClient(mode: Mode, gateway: string): Promise<void> {
    const { open, query } = MODES[mode]
    const proxy = await openWireProxy()
    const goTo = (base: string) => proxy.forwardTo(Number(new URL(base).port))
    goTo(gateway)
    proxy.endWithin(() => cuts.draw(query.includes('snapshot')))
    const key = await platform.newKey()
    const token = mode.includes('token') ? () => feed.tokenOf(key) : undefined
    const reader = await open({ baseUrl: `http://127.0.0.1:${proxy.port}`, query, key, token })
    clients.push({ ...reader, mode, goTo, close: () => reader.close().then(() => proxy.close()) })
  }

  it('lose nothing and repeat nothing, also while gateways are killed and started', async () => {
    const { market, unbroken } = feed
    let gateway = await platform.spawnRole('feed')
    const first = await gateway.baseUrl()
    const from = unbroken.events.length
    for (const mode of ALL_MODES) for (let at = 0; at < CLIENTS_OF_A_MODE; at++) await openClient(mode, first)
    let isOver = false
    const killing = (async () => {
      for (let kill = 0; kill < KILLS; kill++) {
        const next = await platform.spawnRole('feed')
        const base = await next.baseUrl()
        for (const client of clients) client.goTo(base)
        gateway.kill('SIGKILL')
        await gateway.ended
        gateway = next
      }
    })().finally(() => {
      isOver = true
    })
    while (!isOver || !cuts.areMade()) {
      await market.refresh('ask')
      await pause(REFRESH_EVERY_MS)
    }
    await killing
    // One that comes back after a refresh gets nothing of it without an id, so the market moves on until all have its last one.
    await eventually(async () => {
      const last = await feed.lastMoment()
      await pause(REFRESH_EVERY_MS)
      return clients.every(client => client.hasMoment(last))
    }, 'the last refresh at every client')
    console.log(`      connections ended: ${cuts.about()}`)
    expectBalanced(Object.fromEntries(ALL_MODES.map(mode => ledgerOf(mode, from))))
    await gateway.stop()
  })

  function ledgerOf(mode: Mode, from: number): [string, Ledger] {
    const { holds, query } = MODES[mode]
    const whole = feed.unbroken.events.slice(from)
    const [expected, actual]: [LedgerEntry[], LedgerEntry[]] = [[], []]
    for (const [at, { connections, rows }] of clients.filter(client => client.mode === mode).entries()) {
      const faults = connections.flat().filter(({ event }) => event === 'resync' || event === 'failed')
      expect(faults, mode).to.deep.equal([])
      const own = (entries: LedgerEntry[]) => entries.map(({ key, what }) => ({ key: `${at} ${key}`, what }))
      if (holds === 'rows') {
        expected.push(...own(rowsOf([feed.unbroken.events], true)))
        actual.push(...own(rows?.() ?? rowsOf(connections, query.includes('resume'))))
      } else {
        const wanted = holds === 'changes' ? changesOf(whole) : connections.flatMap(one => changesBetween(whole, one))
        expected.push(...own(wanted))
        actual.push(...own(changesOf(connections.flat())))
      }
    }
    return [mode, openLedger(expected, actual, CLIENTS_OF_A_MODE * 100)]
  }
})

async function openSource({ baseUrl, query, key, token }: Opening): Promise<Reader> {
  const address = `${baseUrl}/feed/prices?${query}${token ? `&token=${await token()}` : ''}`
  const own = token ? {} : { authorization: `Bearer ${key}` }
  const connections: FeedEvent[][] = []
  let source: EventSource
  let id = ''
  const open = (): void => {
    // A page whose EventSource gave up opens a new one, which cannot set a header.
    source = new EventSource(id === '' ? address : `${address}&last_event_id=${id}`, {
      fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, ...own } }),
    })
    source.addEventListener('error', () => {
      if (source.readyState === source.CLOSED) open()
    })
    for (const event of ['ready', 'resync', 'prices.changed', 'snapshot.end']) {
      source.addEventListener(event, ({ data, lastEventId }: MessageEvent) => {
        if (event === 'ready') connections.push([])
        id = lastEventId
        connections.at(-1)?.push({ event, data: JSON.parse(data) })
      })
    }
  }
  open()
  await eventually(() => connections.length > 0, 'ready')
  const hasMoment = (moment: string) => momentOf(connections.at(-1)?.at(-1)) === moment
  return { connections, hasMoment, close: async () => source.close() }
}

const clientOf = ({ baseUrl, key, token }: Opening): Marketlog =>
  new Marketlog({ baseUrl, retries: RETRIES, ...(token ? { feedToken: token } : { key }) })

async function openClientFeed(opening: Opening): Promise<Reader> {
  const ending = new AbortController()
  const received: FeedEvent[] = []
  const read = async (): Promise<void> => {
    const events = clientOf(opening).feed.prices({}, { signal: ending.signal })
    for await (const { type, data } of events) received.push({ event: type, data })
  }
  const reading = read().catch(error => {
    if (!ending.signal.aborted) received.push({ event: 'failed', data: String(error) })
  })
  await eventually(() => received.length > 0, 'ready')
  return {
    connections: [received],
    hasMoment: moment => momentOf(received.at(-1)) === moment,
    close() {
      ending.abort()
      return reading
    },
  }
}

async function openBook(opening: Opening): Promise<Reader> {
  const book = await clientOf(opening).liveBook()
  const folded = new Map<string, LedgerEntry>()
  const entryOf = ({ provider, item_id, price, qty }: Ask): LedgerEntry => ({
    key: `${provider} ${item_id}`,
    what: `${price} ${qty}`,
  })
  const rows = () => new Map(book.asks().map(ask => [`${ask.provider} ${ask.item_id}`, entryOf(ask)]))
  for (const [key, row] of rows()) folded.set(key, row)
  const fold = async (): Promise<void> => {
    for await (const ask of book.changes()) {
      const row = entryOf(ask)
      if (ask.price === null) folded.delete(row.key)
      else folded.set(row.key, row)
    }
  }
  const folding = fold()
  return {
    connections: [],
    rows() {
      expect(folded, 'what its changes lead to').to.deep.equal(rows())
      return [...folded.values()]
    },
    hasMoment: moment => book.asks().some(({ seen_at }) => seen_at === moment),
    close: () => book.close().then(() => folding),
  }
}
