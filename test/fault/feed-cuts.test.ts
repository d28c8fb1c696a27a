/**
 * Clients of every mode whose connections end at drawn bytes, beside one whose connection is never broken.
 *
 * The reader is an EventSource written to the standard: it keeps the id of the last whole event and comes back with it. Connections end
 * before the first event, right after `ready`, within events and within the state. A stream that resumes must have every change
 * once, one without ids no gap within a connection, and one that begins with the state end with the rows of the market.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { EventSource } from 'eventsource'
import {
  type Cuts,
  changesBetween,
  changesOf,
  type FeedMarket,
  momentOf,
  openCuts,
  openFeedMarket,
  rowsOf,
} from '#test/fixtures/cut-streams.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, type Ledger, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import type { SseEvent } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy } from '#test/harness/wire-proxy.ts'

const CUTS = 200
const CLIENTS_OF_A_MODE = 4
const KILLS = 6
const REFRESH_EVERY_MS = 100

/** Each mode asks for this, and its ledger holds that. */
const MODES = {
  plain: { query: '', holds: 'connections' },
  resume: { query: 'resume=true', holds: 'changes' },
  token: { query: 'resume=true', holds: 'changes' },
  'snapshot with resume': { query: 'resume=true&snapshot=true', holds: 'rows' },
  conflate: { query: 'snapshot=true&policy=conflate', holds: 'rows' },
} as const

type Mode = keyof typeof MODES

interface Client {
  mode: Mode
  /** Its events, by connection. */
  connections: SseEvent[][]
  goTo(base: string): void
  close(): Promise<void>
}

describe('feeds whose connections end at drawn bytes', function () {
  this.timeout(600_000)
  const platform = useServers({ catalog: 'whole' })
  let feed: FeedMarket
  let clients: Client[]
  let cuts: Cuts

  before(async () => {
    feed = await openFeedMarket(platform, 'feeds that are cut')
  })
  beforeEach(() => {
    cuts = openCuts(feed.market.random, CUTS)
    clients = []
  })
  afterEach(async () => {
    for (const client of clients) await client.close()
  })
  after(() => feed.unbroken.close())

  async function openClient(mode: Mode, gateway: string): Promise<void> {
    const { query } = MODES[mode]
    const proxy = await openWireProxy()
    const key = await platform.newKey()
    const token = mode === 'token' ? await feed.tokenOf(key) : undefined
    const address = `http://127.0.0.1:${proxy.port}/feed/prices?${query}${token ? `&token=${token}` : ''}`
    const own = token ? {} : { authorization: `Bearer ${key}` }
    const connections: SseEvent[][] = []
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
          connections.at(-1)?.push({ event, data: JSON.parse(data), id: lastEventId || undefined })
        })
      }
    }
    const client: Client = {
      mode,
      connections,
      goTo: base => proxy.forwardTo(Number(new URL(base).port)),
      async close() {
        source.close()
        await proxy.close()
      },
    }
    client.goTo(gateway)
    proxy.endWithin(() => cuts.draw(query.includes('snapshot')))
    open()
    clients.push(client)
    await eventually(() => connections.length > 0, 'ready')
  }

  /** Moves the market while connections end and `meanwhile` goes on; then compares. */
  async function expectNothingLost(gateway: string, meanwhile: () => Promise<void>): Promise<void> {
    const { market, unbroken } = feed
    const from = unbroken.events.length
    for (const mode of Object.keys(MODES) as Mode[]) {
      for (let at = 0; at < CLIENTS_OF_A_MODE; at++) await openClient(mode, gateway)
    }
    let isOver = false
    const going = meanwhile().finally(() => {
      isOver = true
    })
    while (!isOver || !cuts.areMade()) {
      await market.refresh('ask')
      await pause(REFRESH_EVERY_MS)
    }
    await going
    // One that comes back after a refresh gets nothing of it without an id, so the market moves on until all have its last one.
    await eventually(async () => {
      const last = await feed.lastMoment()
      await pause(REFRESH_EVERY_MS)
      return clients.every(({ connections }) => momentOf(connections.at(-1)?.at(-1)) === last)
    }, 'the last refresh at every client')
    console.log(`      connections ended: ${cuts.about()}`)
    expectBalanced(Object.fromEntries((Object.keys(MODES) as Mode[]).map(mode => ledgerOf(mode, from))))
  }
  function ledgerOf(mode: Mode, from: number): [string, Ledger] {
    const { holds, query } = MODES[mode]
    const { unbroken } = feed
    const whole = unbroken.events.slice(from)
    const [expected, actual]: LedgerEntry[][] = [[], []]
    let opened = 0
    for (const [at, { connections }] of clients.filter(client => client.mode === mode).entries()) {
      expect(connections.flat().map(({ event }) => event)).not.to.include('resync')
      opened += connections.length
      const own = (entries: LedgerEntry[]) => entries.map(({ key, what }) => ({ key: `${at} ${key}`, what }))
      if (holds === 'rows') {
        expected?.push(...own(rowsOf([unbroken.events], true)))
        actual?.push(...own(rowsOf(connections, query.includes('resume'))))
      } else {
        const wanted = holds === 'changes' ? changesOf(whole) : connections.flatMap(one => changesBetween(whole, one))
        expected?.push(...own(wanted))
        actual?.push(...own(changesOf(connections.flat())))
      }
    }
    return [`${mode}, ${opened} connections`, openLedger(expected ?? [], actual ?? [], CLIENTS_OF_A_MODE * 100)]
  }

  it('lose nothing and repeat nothing', () => expectNothingLost(feed.base, async () => undefined))

  it('nor while gateways are killed and started', async () => {
    let gateway = await platform.spawnRole('feed')
    const first = await gateway.baseUrl()
    await expectNothingLost(first, async () => {
      for (let kill = 0; kill < KILLS; kill++) {
        const next = await platform.spawnRole('feed')
        const base = await next.baseUrl()
        for (const client of clients) client.goTo(base)
        gateway.kill('SIGKILL')
        await gateway.ended
        gateway = next
      }
    })
    await gateway.stop()
  })
})
