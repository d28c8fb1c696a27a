/**
 * Every reply of every operation of the specification's table, on the demo market, compared with the types that the
 * specification gives (reply-shapes.ts): integers, enumerations and formats to the letter, error bodies included.
 *
 * All roles run; nothing is written but through the API and by ingest. Invariant: an operation without a row, a row
 * that no reply was compared with, and a member that may not be null and never held a value each fail the test.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import type { Database } from '#infra/postgres/pool.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { linkPlatformAccount } from '#services/accounts/sign-in/commands.ts'
import { ROLE_NAMES, type RoleName } from '#services/cli/roles.ts'
import { STAND_IN } from '#services/inventory/main.ts'
import { type LoopbackPlatform, openLoopbackPlatform } from '#test/fixtures/platform-stand-in.ts'
import { openReceiver, type Receiver } from '#test/fixtures/webhook-receiver.ts'
import { eventually } from '#test/harness/eventually.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { ACCOUNT_REPLIES } from './account-reply-types.ts'
import { MARKET_REPLIES } from './market-reply-types.ts'
import { ERROR, type Shape, VALIDATION_ERROR } from './reply-shapes.ts'
import { checkJson, type Findings, neededPathsOf } from './typed-json.ts'

const DEMO_ITEMS = 200
/** Those with sales. */
const DEMO_PROVIDERS = new Set([2, 4, 6, 7, 8, 12, 41].map(number => `provider_${String(number).padStart(2, '0')}`))
const OFTEN_MS = 15_000
const HISTORY_LIMIT_MS = 300_000
const THIN_ABOVE = 2 ** 21

/** Those of the specification's table, and one that was decided on later (DECISIONS.md, "Movers"). */
const OPERATIONS = readFileSync(new URL('../fixtures/operations.csv', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .slice(1)
  .map(line => line.split(',').slice(0, 2).join(' '))
  .concat('GET /market/movers')

const REPLY_TYPES = { ...MARKET_REPLIES, ...ACCOUNT_REPLIES }

/** A portfolio holds items of the catalog alone, which never lose their ids. */
const ALWAYS_EMPTY = ['GET /portfolio/:id/value.data.items_not_found[]']

/** How an operation is asked for. */
interface Ask {
  params?: Record<string, string | number>
  query?: string
  body?: unknown
  /** A text as it is, with its type. */
  raw?: { text: string; type: string }
  key?: string | null
}

describe('the types of replies', () => {
  const platform = useServers({ catalog: 'whole' })
  const findings: Findings = { faults: [], seen: new Set() }
  const held = new Set<string>()
  let roles: StartedRoles
  let summary: StartedRoles
  let database: Database
  let inventories: LoopbackPlatform
  let receiver: Receiver
  let key: string
  /** An item with asks, buy orders and sales. */
  let item: { item_id: number; market_hash_name: string }

  before('the demo market', async function () {
    this.timeout(2 * HISTORY_LIMIT_MS)
    const { config } = platform
    inventories = await openLoopbackPlatform()
    receiver = await openReceiver()
    database = platform.database
    const account = await createAccountWithKey(database, { tier: 'quant', email: 'types@example.com' })
    key = account.key
    await linkPlatformAccount(database, account.account_id, STAND_IN.full)
    const settings = {
      market: writeDemo(config.stateDir),
      tiersFile: writeRoomyTiers(config.stateDir),
      inventoryUrl: inventories.url,
      webhookAllow: [`127.0.0.1:${receiver.port}`],
    }
    const isLive = async (path: string) => {
      const { status, text } = await send('GET', path, {})
      return status === 200 && !/"(items|series)":\[\]/.test(text)
    }
    const later: RoleName[] = ['market-summary', 'movers']
    roles = await platform.startRoles(
      ROLE_NAMES.filter(role => role !== 'inventory-stand-in' && !later.includes(role)),
      settings,
    )
    // Ready is ingest when it has published the history. A summary of less would be followed by the next one after two minutes.
    await roles.ready(HISTORY_LIMIT_MS)
    await platform.drained([], HISTORY_LIMIT_MS)
    item = await eventually(findItem, 'an item that is sold')
    summary = await platform.startRoles(later, settings)
    for (const path of ['/market/items', '/market/arbitrage', '/market/movers'])
      await eventually(() => isLive(path), path)
  })
  after(async () => {
    expect([...(roles?.failures ?? []), ...(summary?.failures ?? [])]).to.deep.equal([])
    await inventories?.close()
    await receiver?.close()
  })

  async function findItem(): Promise<typeof item | undefined> {
    const sales = JSON.parse((await send('GET', '/sales?limit=200', {})).text).items
    for (const { item_id, market_hash_name, phase } of sales) {
      if (phase !== null) continue
      const [asks, bids] = await Promise.all(
        ['prices', 'bids'].map(async list => JSON.parse((await send('GET', `/${list}?item_id=${item_id}`, {})).text)),
      )
      if (asks.items.length > 3 && bids.items.length > 1) return { item_id, market_hash_name }
    }
    return undefined
  }

  async function send(method: string, path: string, { body, raw, key: as = key }: Ask) {
    const sent = raw ?? (body === undefined ? undefined : { text: JSON.stringify(body), type: 'application/json' })
    const answer = await fetch(`${roles.baseUrl}/v1${path}`, {
      method,
      headers: {
        ...(as !== null && { authorization: `Bearer ${as}` }),
        ...(sent && { 'content-type': sent.type }),
      },
      ...(sent && { body: sent.text }),
    })
    return { status: answer.status, type: answer.headers.get('content-type') ?? '', text: await answer.text() }
  }

  const pathOf = (operation: string, { params = {}, query = '' }: Ask): string =>
    (operation.split(' ')[1] as string).replaceAll(/:(\w+)/g, (_, name) => String(params[name])) + query

  /** Asks for an operation and holds its reply against the table; returns what was replied. */
  // biome-ignore lint/suspicious/noExplicitAny: replies of every shape
  async function ask(operation: string, asked: Ask = {}): Promise<any> {
    const [method = ''] = operation.split(' ')
    const { status, type, text } = await send(method, pathOf(operation, asked), asked)
    expect(status, `${operation}: ${text.slice(0, 300)}`).to.be.within(200, 204)
    const shape = REPLY_TYPES[operation] as Shape
    held.add(operation)
    if (shape === 'no body') return void expect([status, text], operation).to.deep.equal([204, ''])
    if (shape === 'CSV') return void expect(type, operation).to.equal('text/csv; charset=utf-8')
    if (type === 'application/x-ndjson') {
      for (const line of text.trimEnd().split('\n')) checkJson(line, shape, operation, findings)
      return undefined
    }
    expect(type, operation).to.equal('application/json; charset=utf-8')
    checkJson(text.length > THIN_ABOVE ? thinned(text) : text, shape, operation, findings)
    return JSON.parse(text)
  }

  /** Opens a feed until its first changes have come. */
  async function listen(operation: 'GET /feed/prices' | 'GET /feed/bids'): Promise<void> {
    const ending = new AbortController()
    const answer = await fetch(`${roles.baseUrl}/v1${operation.slice(4)}?snapshot=true`, {
      headers: { authorization: `Bearer ${key}` },
      signal: ending.signal,
    })
    const events = REPLY_TYPES[operation] as Record<string, Shape>
    const missing = new Set(Object.keys(events))
    let text = ''
    for await (const chunk of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      const whole = text.split('\n\n')
      text = whole.pop() ?? ''
      for (const event of whole) {
        const [, name = '', data = ''] = /^event: (.+)\ndata: (.+)$/m.exec(event) ?? []
        if (events[name]) checkJson(data, events[name], `${operation}.${name}`, findings)
        missing.delete(name)
      }
      if (missing.size === 0) break
    }
    ending.abort()
    expect([...missing]).to.deep.equal([])
    held.add(operation)
  }

  it('of prices, buy orders, sales and the catalog', async () => {
    const byItem = `?item_id=${item.item_id}`
    const byName = `?market_hash_name=${encodeURIComponent(item.market_hash_name)}`
    const batch = { body: { item_ids: [item.item_id, 1_999_999_999], market_hash_names: ['No such item'] } }
    for (const list of ['prices', 'bids']) {
      for (const query of ['', byItem, `${byName}&currency=JPY&providers=provider_02`, `${byItem}&currency=BTC`]) {
        await ask(`GET /${list}`, { query })
      }
      await ask(`GET /${list}`, { query: '?phase=Ruby' })
      await ask(`POST /${list}`)
      await ask(`POST /${list}/batch`, batch)
    }
    for (const query of ['', '&interval=1h&fill=true', '&interval=5m'])
      await ask('GET /prices/candles', { query: byItem + query })
    for (const query of [`${byItem}&provider=provider_02`, `${byName}&limit=1`])
      await ask('GET /prices/history', { query })
    const filters = '&providers=provider_02&min_float=0&max_float=1'
    for (const query of ['', `${byItem}${filters}`, '?paint_seed=5&charms=x&stickers=x', '?limit=3'])
      await ask('GET /sales', { query })
    for (const query of ['', byItem, '?phase=Ruby&limit=2']) await ask('GET /items', { query })
    for (const operation of ['GET /items/metadata', 'GET /images', 'GET /providers', 'GET /fx']) await ask(operation)
  })

  it('of market analytics', async () => {
    const query = `?item_id=${item.item_id}`
    await ask('GET /market/arbitrage', { query: '?min_spread_pct=-5&limit=1000' })
    for (const group of ['item_type', 'weapon_type']) await ask('GET /market/indexes', { query: `?group_by=${group}` })
    for (const interval of ['1h', '1d']) await ask('GET /market/indicators', { query: `${query}&interval=${interval}` })
    await ask('GET /market/items')
    await ask('GET /market/items/:item_id', { params: { item_id: item.item_id } })
    await ask('GET /market/movers', { query: '?window=24h&min_providers=0&min_price_usd=0&limit=200' })
    await ask('GET /market/history/chart', { query })
  })

  it('of feeds', async () => {
    await listen('GET /feed/prices')
    await listen('GET /feed/bids')
    await ask('POST /feed/token')
  })

  it('of portfolios and inventories', async () => {
    const { id } = await ask('POST /portfolio', { body: { name: 'types' } })
    const params = { id }
    const items = [
      { item_id: item.item_id, quantity: 2 },
      { item_id: 1_999_999_999, quantity: 1 },
    ]
    await ask('GET /inventory/gamestore')
    await ask('GET /inventory/gamestore/lookup', { query: `?gamestore_id=${STAND_IN.full}` })
    await ask('POST /portfolio/:id/import', { params, body: {} })
    const entry = await ask('POST /portfolio/:id/items', { params, body: { item_id: item.item_id, quantity: 3 } })
    const date = new Date(Date.now() - 2 * 86_400_000).toISOString().slice(0, 10)
    const wanted = { item_id: item.item_id, type: 'buy', quantity: 2, price: 1_234, date }
    const details = { fee_amount: 12, fee_percentage: 2.5, marketplace: 'somewhere', note: 'a note' }
    const bought = await ask('POST /portfolio/:id/transactions', { params, body: { ...wanted, ...details } })
    const tx = { ...params, tx_id: bought.id }
    await ask('PATCH /portfolio/:id/transactions/:tx_id', { params: tx, body: { price: 1_000, note: null } })
    for (const query of ['?type=transactions', '?type=items']) await ask('GET /portfolio/:id/export', { params, query })
    const csv = `date,type,item_id,quantity,price,currency\n${date},buy,${item.item_id},1,100,EUR\n`
    await ask('POST /portfolio/:id/import/csv', { params, raw: formOf(csv) })
    const unknown = csv.replace(String(item.item_id), '1999999999')
    const refused = await send('POST', `/portfolio/${id}/import/csv`, { raw: formOf(unknown) })
    const members = REPLY_TYPES['POST /portfolio/:id/import/csv'] as Record<string, Shape>
    expect(refused.status).to.equal(422)
    checkJson(refused.text, { ...(VALIDATION_ERROR as object), ...members }, 'POST /portfolio/:id/import/csv', findings)
    await ask('GET /portfolio')
    await ask('GET /portfolio/:id/items', { params })
    await ask('GET /portfolio/:id/transactions', { params })
    await ask('GET /portfolio/:id/history', { params, query: '?lookback=5d' })
    await ask('POST /portfolio/value', { body: { items } })
    await ask('GET /portfolio/:id/value', { params, query: '?currency=EUR' })
    await ask('DELETE /portfolio/:id/transactions/:tx_id', { params: tx })
    await ask('DELETE /portfolio/:id/items/:entry_id', { params: { id, entry_id: entry.id } })
    await ask('DELETE /portfolio/:id', { params })
  })

  it('of alerts, webhooks and deliveries', async () => {
    const hook = { label: 'types', url: `${receiver.url}/hook` }
    const made = await ask('POST /account/webhooks', { body: hook })
    const params = { id: made.webhook.id }
    const alert = { item_id: item.item_id, kind: 'price_below', threshold_value: '1000000' }
    await ask('POST /account/alerts', { body: { ...alert, threshold_currency: 'EUR' } })
    const spread = { item_id: item.item_id, kind: 'spread_exceeds', threshold_value: '99.5' }
    const batch = [spread, spread, { ...alert, item_id: 1_999_999_999 }]
    await ask('POST /account/alerts/batch', { body: { alerts: batch } })
    const hasSucceeded = async () => {
      const { deliveries } = await ask('GET /account/webhooks/deliveries')
      return deliveries.find(({ status }: { status: string }) => status === 'succeeded')
    }
    const delivered = await eventually(hasSucceeded, 'a delivery')
    await ask('GET /account/webhooks/deliveries/:id', { params: { id: delivered.id } })
    await ask('GET /account/alerts/events')
    const { alerts } = await ask('GET /account/alerts')
    const alert_id = alerts[0].id
    await ask('PATCH /account/alerts/:alert_id', { params: { alert_id }, body: { threshold_value: '98.25' } })
    await ask('DELETE /account/alerts/:alert_id', { params: { alert_id } })
    await ask('PATCH /account/webhooks/:id', { params, body: { label: 'other' } })
    await ask('GET /account/webhooks')
    await ask('POST /account/webhooks/:id/rotate-secret', { params })
    await ask('DELETE /account/webhooks/:id', { params })
  })

  it('of errors, of every operation', async () => {
    let violations = 0
    const hold = async (operation: string, asked: Ask) => {
      const [method = ''] = operation.split(' ')
      const { status, text } = await send(method, pathOf(operation, asked), asked)
      expect(status, `${operation} ${JSON.stringify(asked)}: ${text.slice(0, 200)}`).to.be.within(400, 499)
      if (status === 422) violations += 1
      checkJson(text, status === 422 ? VALIDATION_ERROR : ERROR, `${operation} ${status}`, findings)
    }
    const mayRead = ({ asked }: { asked: string }) => !['POST /account/key/reissue', 'POST /feed/token'].includes(asked)
    for (const operation of OPERATIONS) {
      const params = Object.fromEntries([...operation.matchAll(/:(\w+)/g)].map(([, name = '']) => [name, 'x']))
      await hold(operation, { params, key: null })
      const hasPath = Object.keys(params).length > 0
      if (hasPath) await hold(operation, { params, body: operation.startsWith('GET') ? undefined : {} })
      else if (operation.startsWith('POST') && mayRead({ asked: operation })) {
        await hold(operation, { query: '?providers=nobody', body: { unknown: 1, items: 7 } })
      }
    }
    const wrong = '?limit=0.5&item_id=x&providers=nobody&currency=none&interval=2d&phase=Phase+9'
    for (const list of ['prices', 'bids', 'prices/candles', 'sales', 'market/indicators', 'feed/prices', 'items']) {
      await hold(`GET /${list}`, { query: wrong })
    }
    await hold('GET /prices', { query: '?item_id=1999999999' })
    await hold('GET /prices', { query: '?market_hash_name=AK-47+Redline' })
    await hold('GET /market/arbitrage', { query: '?cursor=x' })
    expect(violations).to.be.above(25)
  })

  it('of keys', async () => {
    await ask('GET /account/key')
    const body = { name: 'child', quota_requests_per_month_override: 1000, rate_requests_per_minute_override: 10 }
    const { key_info: child, key: childKey } = await ask('POST /account/sub-keys', { body })
    await ask('GET /account/key', { key: childKey })
    const params = { id: child.id }
    await ask('GET /account/sub-keys')
    await ask('GET /account/sub-keys/:id', { params })
    await ask('PATCH /account/sub-keys/:id', { params, body: { rate_requests_per_minute_override: null } })
    const again = await ask('POST /account/sub-keys/:id/reissue', { params })
    await ask('DELETE /account/sub-keys/:id', { params: { id: again.key_info.id } })
    const root = await ask('POST /account/key/reissue')
    key = root.key
  })

  it('are those of the specification, to the letter', () => {
    const kinds = Map.groupBy(findings.faults, fault => fault.replace(/: .*/, ''))
    const first = [...kinds.values()].map(([fault, ...more]) => `${fault} (and ${more.length} more)`)
    expect(first.join('\n')).to.equal('')
  })

  it('were compared with a reply of each of the 63 operations', () => {
    expect(OPERATIONS).to.have.length(63)
    expect(Object.keys(REPLY_TYPES).sort()).to.deep.equal([...OPERATIONS].sort())
    expect([...held].sort()).to.deep.equal([...OPERATIONS].sort())
  })

  it('were compared with a value of each member that is never null', () => {
    const typed = Object.entries(REPLY_TYPES).filter(([, shape]) => shape !== 'no body' && shape !== 'CSV')
    const paths = typed.flatMap(([operation, shape]) => [...neededPathsOf(shape, operation)])
    expect(paths.filter(path => !findings.seen.has(path))).to.deep.equal(ALWAYS_EMPTY)
  })
})

describe('the check of types', () => {
  const shape: Shape = { n: 'int', 'maybe?': 'ts', list: [{ kind: 'one of a, b?' }], usd: 'usd' }
  const faultsOf = (text: string): string[] => {
    const findings: Findings = { faults: [], seen: new Set() }
    checkJson(text, shape, 'root', findings)
    return findings.faults
  }
  const right = '{"n":10,"maybe":"2026-02-28T00:00:00.000Z","list":[{"kind":"a"},{"kind":null}],"usd":"-1.50"}'

  it('finds nothing wrong with what is right', () => expect(faultsOf(right)).to.deep.equal([]))

  const wrong: [what: string, from: string, to: string, fault: string][] = [
    ['a number with a fraction', ':10', ':10.7', 'root.n: 10.7 is no int'],
    ['an integer that is written as a fraction', ':10', ':10.0', 'root.n: 10.0 is no int'],
    ['a text in place of a number', ':10', ':"10"', 'root.n: "10" is no int'],
    ['a day that does not exist', '02-28', '02-30', 'root.maybe: "2026-02-30T00:00:00.000Z" is no ts'],
    ['a moment without its zone', '000Z', '000', 'root.maybe: "2026-02-28T00:00:00.000" is no ts'],
    ['a value that is none of an enumeration', '"a"', '"A"', 'root.list[].kind: "A" is no one of a, b?'],
    ['null where none may be', '"-1.50"', 'null', 'root.usd: null is no usd'],
    ['an amount of dollars with one place', '1.50', '1.5', 'root.usd: "-1.5" is no usd'],
    ['a member that nothing names', '"n"', '"m":1,"n"', 'root: holds m, which nothing names'],
    ['a member that is missing', '"n":10,', '', 'root: lacks n'],
    ['an object in place of a list', '[{"kind":"a"},{"kind":null}]', '{}', 'root.list: no array'],
  ]
  for (const [what, from, to, fault] of wrong) {
    it(`finds ${what}`, () => expect(faultsOf(right.replace(from, to))).to.deep.equal([fault]))
  }
})

/** Every twentieth item of a reply that lists tens of thousands: all of them would hold the process up, and the API with it. */
function thinned(text: string): string {
  const rows = text.split(/(?<=\}),(?=\{"item_id":)/)
  return rows.filter((_, at) => at % 20 === 0 || at === rows.length - 1).join(',')
}

/** The demo market with fewer items and providers, two of whose feeds change often: what is looked at is types. */
function writeDemo(folder: string): string {
  const demo = new URL('../../infra/config/markets/demo.json', import.meta.url)
  const market = JSON.parse(readFileSync(demo, 'utf8'))
  const base = fileURLToPath(new URL(market.base, demo))
  const file = join(folder, 'demo.json')
  const feeds = market.feeds.filter(({ provider }: { provider: string }) => DEMO_PROVIDERS.has(provider))
  for (const feed of feeds) if (feed.provider === 'provider_12' && feed.side !== 'sale') feed.interval_ms = OFTEN_MS
  writeFileSync(file, JSON.stringify({ ...market, base, feeds, items: DEMO_ITEMS }))
  return file
}

const BOUNDARY = 'a-boundary-of-the-test'

/** A form whose field `file` carries a text. */
function formOf(csv: string): { text: string; type: string } {
  const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\nContent-Type: text/csv\r\n\r\n`
  return { text: `${head}${csv}\r\n--${BOUNDARY}--\r\n`, type: `multipart/form-data; boundary=${BOUNDARY}` }
}
