import { expect } from 'chai'
import { loadProviders } from '#infra/config/providers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { startWithin } from '#services/feed/main.ts'
import { type FeedListeners, openFeedListeners } from '#test/fixtures/feed-listeners.ts'
import { saleRecord, sold } from '#test/harness/published-records.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import type { SseClient, SseEvent } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'

const [ONE, OTHER] = ['provider_02', 'provider_12']

interface Recorded {
  provider: string
  seen_at: string
  items: { item_id: number; date: string }[]
}

describe('the feed of sales', () => {
  const platform = useServers()
  const items = smallCatalog()
  const soldFrom = Date.now() - DAY_MS
  const published: SaleObserved[] = []
  let kafka: KafkaConnection
  let publisher: Publisher
  let listeners: FeedListeners
  /** The first keeps events, the second reads all from the log. */
  let gateways: string[]

  before(async () => {
    kafka = platform.connect('ingest')
    publisher = await platform.openPublisher(kafka, 'ingest')
    listeners = openFeedListeners(platform)
    const withoutWindow = { starting: 10, replays: 2, windowBytes: 1 }
    const roles = [
      await platform.startRoles(['sales', 'api', 'feed']),
      await platform.startRoles([context => startWithin(withoutWindow, context)]),
    ]
    for (const role of roles) await role.ready()
    gateways = roles.map(({ baseUrl }) => baseUrl)
  })
  after(() => listeners?.close())

  const listen = async (path: string, at = 0, lastId?: string): Promise<SseClient> => {
    const client = await listeners.listen(gateways[at] as string, path, lastId)
    await client.event(({ event }) => event === 'ready')
    return client
  }
  /** Publishes the sales of a list, in the currency of its provider, some with details; all later than those before. */
  async function publish(provider: string, sales: Partial<SaleObserved>[]): Promise<SaleObserved[]> {
    const currency = provider === ONE ? { currency: 'CNY', usd_rate: '7.25' } : {}
    const observed_at = Date.now()
    const list = sales.map((members, at) => {
      const number = published.length + at
      const { market_hash_name, phase } = items[number % items.length] as (typeof items)[0]
      const details = { float: 0.25, stickers: [{ name: 'Crown (Foil)', slot: 2, wear: 0.5 }], charms: [] }
      return sold({
        provider,
        market_hash_name,
        phase,
        ...currency,
        ...(number % 2 === 0 && details),
        sale_id: `s${number}`,
        sold_at: soldFrom + number,
        price: 1_000 + number,
        observed_at,
        ...members,
      })
    })
    published.push(...list)
    await publisher.send(list.map(sale => saleRecord(kafka.codec, sale)))
    return list
  }
  const many = (provider: string, count: number) => publish(provider, Array(count).fill({}))

  const recordedOf = ({ events }: { events: readonly SseEvent[] }): Recorded[] =>
    events.flatMap(({ event, data }) => (event === 'sales.recorded' ? [data as Recorded] : []))
  const datesOf = (client: SseClient): string[] => recordedOf(client).flatMap(data => data.items.map(item => item.date))
  const dates = (sales: readonly SaleObserved[]) => sales.map(({ sold_at }) => new Date(sold_at).toISOString())
  const lastOf = (client: SseClient, sales: readonly SaleObserved[]) =>
    client.event(({ data }) => {
      const own = (data as Partial<Recorded>).items ?? []
      return own.some(({ date }) => date === dates(sales).at(-1))
    })

  it('sends a list of a provider in one event, to each filter what it names, and what the table would not take to nobody', async () => {
    const [first, second] = items.filter(one => one.market_hash_name === '★ Karambit | Doppler (Factory New)')
    if (!first || !second) throw new Error('the catalog has no phased finish')
    const all = await listen('/feed/sales')
    expect(all.events[0]?.data).to.deep.include({ providers: loadProviders().saleKeys })
    const byProvider = await listen(`/v1/feed/sales?providers=${OTHER}`)
    const byId = await listen(`/feed/sales?item_ids=${second.item_id}`)
    const byName = await listen(`/feed/sales?market_hash_names=${encodeURIComponent(first.market_hash_name)}`)
    const named = [first, second].map(({ market_hash_name, phase }) => ({ market_hash_name, phase }))
    const left = [{ market_hash_name: 'AK-48 | No Such Thing' }, { observed_at: Date.now() + DAY_MS }]
    const ofOne = await publish(ONE, [...named, {}, ...left])
    const ofOther = await publish(OTHER, [...named, {}])
    for (const client of [all, byProvider, byName])
      await lastOf(client, client === byName ? ofOther.slice(0, 2) : ofOther)
    await lastOf(byId, ofOther.slice(0, 2))
    await lastOf(all, ofOne.slice(0, 3))
    const shown = (client: SseClient) =>
      Object.fromEntries(recordedOf(client).map(({ provider, items }) => [provider, items.map(({ date }) => date)]))
    expect(shown(all)).to.deep.equal({ [ONE]: dates(ofOne.slice(0, 3)), [OTHER]: dates(ofOther) })
    expect(shown(byProvider)).to.deep.equal({ [OTHER]: dates(ofOther) })
    expect(shown(byId)).to.deep.equal({ [ONE]: dates(ofOne.slice(1, 2)), [OTHER]: dates(ofOther.slice(1, 2)) })
    expect(shown(byName)).to.deep.equal({ [ONE]: dates(ofOne.slice(0, 2)), [OTHER]: dates(ofOther.slice(0, 2)) })
    expect(recordedOf(all)).to.have.length(2)
    expect(recordedOf(all)[0]?.seen_at).to.equal(new Date(ofOne[0]?.observed_at ?? 0).toISOString())
  })

  it('resumes after any event, at either gateway, with each sale once and none lost', async () => {
    const path = `/feed/sales?resume=true&providers=${ONE}`
    const begun = await listen(path)
    const before = await many(ONE, 1_500)
    await lastOf(begun, before)
    begun.close()
    const after = await many(ONE, 20)
    const ids = begun.events.map(({ id }) => id)
    expect(ids, 'ready and two events at least').to.have.length.above(2)
    const resumed = await Promise.all(ids.flatMap(id => [0, 1].map(at => listen(path, at, id))))
    const live = await many(ONE, 1)
    for (const [nth, client] of resumed.entries()) {
      await lastOf(client, live)
      const had = datesOf({ ...begun, events: begun.events.slice(0, 1 + (nth >> 1)) })
      expect([...had, ...datesOf(client)], `after event ${nth >> 1}`).to.deep.equal(
        dates([...before, ...after, ...live]),
      )
    }
  })

  it('replays what was recorded in its order, each sale with the record that GET /sales has of it', async () => {
    const replay = await listen('/feed/replay/sales?from=2026-01-01&speed=0')
    const { data } = await replay.event(({ event }) => event === 'replay.end')
    const taken = published.filter(
      ({ market_hash_name: name, observed_at: at }) => name !== 'AK-48 | No Such Thing' && at < Date.now(),
    )
    expect(data).to.deep.equal({ items: taken.length })
    for (const provider of [ONE, OTHER]) {
      const own = recordedOf(replay).filter(one => one.provider === provider)
      expect(own.flatMap(one => one.items.map(({ date }) => date))).to.deep.equal(
        dates(taken.filter(sale => sale.provider === provider)),
      )
    }
    await platform.drained(['sales'])
    const authorization = `Bearer ${await platform.newKey()}`
    const listed: Recorded['items'] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const url = `${gateways[0]}/v1/sales?limit=1000${cursor && `&cursor=${cursor}`}`
      const answer = await (await fetch(url, { headers: { authorization } })).json()
      const page = answer as { items: Recorded['items']; pagination: { next_cursor: string | null } }
      listed.push(...page.items)
      cursor = page.pagination.next_cursor
    }
    const newestFirst = (a: { date: string }, b: { date: string }) => b.date.localeCompare(a.date)
    expect(
      recordedOf(replay)
        .flatMap(one => one.items)
        .sort(newestFirst),
    ).to.deep.equal(listed)
  })
})
