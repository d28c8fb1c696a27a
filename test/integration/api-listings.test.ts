import { expect } from 'chai'
import type { Provider } from '#infra/config/providers.ts'
import type { Tier } from '#infra/config/tiers.ts'
import { bidsReply, pricesReply } from '#schemas/api/listing.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { PHASES } from '#schemas/values/phase.ts'
import { headKey, itemKey, listingKey } from '#streams/live-view/table.ts'
import { type ApiScenario, ELSEWHERE, type ModelRow, openApiScenario, uriOf } from '#test/fixtures/api-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { adaptive, hundredths, majorUnits } from '#test/oracles/exact-amounts.ts'
import { modelUrl } from '#test/oracles/marketplace-url.ts'

const iso = (instant: number): string => new Date(instant).toISOString()
const query = (parameters: Record<string, string | number | string[]>): string =>
  new URLSearchParams(
    Object.entries(parameters).flatMap(([name, value]) =>
      [value].flat().map((one): [string, string] => [name, String(one)]),
    ),
  ).toString()

describe('GET /prices and /bids', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market behind the service', async () => {
    scenario = await openApiScenario(platform)
  })
  after('end of the market', () => scenario.close())

  const rowsOf = (side: Side, fits: (row: ModelRow) => boolean = () => true): ModelRow[] =>
    scenario.rows
      .filter(row => row.side === side && fits(row))
      .sort(
        (a, b) =>
          compare(a.provider, b.provider) ||
          partitionOfItem(a.itemId) - partitionOfItem(b.itemId) ||
          a.itemId - b.itemId,
      )

  const itemOf = (itemId: number): CatalogItem =>
    scenario.catalog.find(one => one.item_id === itemId) ?? expect.fail(`no item ${itemId}`)

  /** Where a row leads; undefined where that is no host of its provider. */
  function urlOf(row: ModelRow): string | undefined {
    if (row.url) return row.url.includes(ELSEWHERE) ? undefined : uriOf(row.url)
    const { link_template } = scenario.providers.find(one => one.key === row.provider) as Provider
    return modelUrl(link_template, itemOf(row.itemId))
  }

  /** The entry that a row should become, and the row of the phase whose price it shows, where it stands for several. */
  function entryOf(row: ModelRow & { best?: ModelRow }, options: { currency?: string; withUrl?: boolean } = {}) {
    const { currency = 'USD', withUrl = row.side === 'ask' } = options
    const { best = row } = row
    const item = itemOf(row.itemId)
    const url = withUrl ? urlOf(best) : undefined
    const amount =
      row.currency === currency
        ? { over: BigInt(row.price), under: 100n }
        : majorUnits(row.priceMicroUsd, scenario.rates[currency] as string)
    const price = [Number(hundredths(amount)), adaptive(amount)] as const
    const { market_hash_name, phase } = item
    return {
      provider: row.provider,
      item_id: row.itemId,
      market_hash_name,
      phase,
      ...(row.side === 'ask'
        ? {
            lowest_ask: price[0],
            lowest_ask_decimal: price[1],
            quantity: row.quantity,
            link: `${scenario.roles.baseUrl}/r/${row.provider}/${best.itemId}`,
            ...(url !== undefined && { url }),
          }
        : { highest_bid: price[0], highest_bid_decimal: price[1], num_bids: row.quantity }),
      timestamp: iso(row.seenAt),
      last_updated: iso(Math.max(row.seenAt, scenario.refreshedAt[row.side][row.provider] ?? 0)),
    }
  }

  async function expectListing(
    side: Side,
    parameters: Record<string, string | number | string[]>,
    expected: { rows: ModelRow[]; filters: object; queried?: string[]; as?: Tier },
  ): Promise<void> {
    const { rows, filters, as = 'quant' } = expected
    const allKeys = scenario.providers.filter(one => side === 'ask' || one.features.has_buy_orders).map(one => one.key)
    const answer = await scenario.ask(`/v1/${side === 'ask' ? 'prices' : 'bids'}?${query(parameters)}`, { as })
    expect(answer.status, answer.text).to.equal(200)
    const body = (side === 'ask' ? pricesReply : bidsReply).parse(answer.body)
    const currency = String(parameters.currency ?? 'USD')
    const limit = Number(parameters.limit ?? (as === 'free' ? 100 : 1000))
    const offset = Number(parameters.offset ?? 0)
    const page = rows.slice(offset, offset + limit)
    const withUrl = side === 'ask' && (as === 'pro' || as === 'quant')
    expect(body.items).to.deep.equal(page.map(row => entryOf(row, { currency, withUrl })))
    expect(body.meta).to.deep.equal({
      currency,
      filters,
      providers_queried: expected.queried ?? allKeys,
      returned_providers: [...new Set(page.map(row => row.provider))].sort(),
    })
    expect(body.pagination).to.deep.equal({
      limit,
      offset,
      total: rows.length,
      has_next: offset + limit < rows.length,
      has_prev: offset > 0,
    })
  }

  for (const side of ['ask', 'bid'] as const) {
    describe(side === 'ask' ? 'asks' : 'bids', () => {
      const tiers = side === 'ask' ? (['free', 'starter', 'pro', 'quant'] as const) : (['starter', 'quant'] as const)
      /** The entries of an item are what some parameters find; the answer repeats them as filters unless others are named. */
      const expectItem = (
        itemId: number,
        parameters: Record<string, string | number>,
        filters: object = parameters,
        as: Tier = 'quant',
      ) => expectListing(side, parameters, { rows: rowsOf(side, row => row.itemId === itemId), filters, as })

      for (const as of tiers)
        it(`of an item by its id, on ${as}`, () => {
          const { item_id } = scenario.items.full
          return expectItem(item_id, { item_id }, { item_id }, as)
        })

      it('of an item by its name, by its id whatever is named beside it, and none of one that no provider lists', async () => {
        const { item_id, market_hash_name } = scenario.items.full
        await expectItem(item_id, { market_hash_name })
        await expectItem(item_id, { item_id, market_hash_name: 'No such thing', phase: 'Ruby' }, { item_id })
        await expectItem(scenario.items.unlisted.item_id, { item_id: scenario.items.unlisted.item_id })
      })

      it('of a finish with a phase, and of its own entry by id, are those of that item alone', async () => {
        const { finish, phases } = scenario.items
        for (const { market_hash_name, phase, item_id } of phases)
          await expectItem(item_id, { market_hash_name, phase: phase as string })
        await expectItem(finish.item_id, { item_id: finish.item_id })
      })

      it('of a finish by its name are merged per provider', async () => {
        const { market_hash_name, item_id } = scenario.items.finish
        const ids = [item_id, ...scenario.items.phases.map(item => item.item_id)]
        const groups = Map.groupBy(
          rowsOf(side, row => ids.includes(row.itemId)),
          row => row.provider,
        )
        const rows = [...groups.values()].map((group): ModelRow & { best: ModelRow } => {
          const [best] = group.toSorted((a, b) => (side === 'ask' ? a.price - b.price : b.price - a.price))
          return {
            ...(best as ModelRow),
            best: best as ModelRow,
            itemId: item_id,
            quantity: group.reduce((sum, row) => sum + row.quantity, 0),
            seenAt: Math.max(...group.map(row => row.seenAt)),
          }
        })
        expect(
          [...groups.values()].some(group => group.length > 1),
          'a provider with several phases',
        ).to.equal(true)
        await expectListing(side, { market_hash_name }, { rows, filters: { market_hash_name } })
      })

      it('of a phase alone are those of all items of the phase', async () => {
        for (const phase of PHASES) {
          const ids = new Set(scenario.catalog.filter(item => item.phase === phase).map(item => item.item_id))
          const rows = rowsOf(side, row => ids.has(row.itemId))
          await expectListing(side, { phase }, { rows, filters: { phase } })
          await expectListing(side, { phase, limit: 7, offset: 5 }, { rows, filters: { phase } })
        }
      })

      it('of some providers, in whatever order and number they are named', async () => {
        const { item_id } = scenario.items.full
        const keys = ['provider_41', 'provider_02', 'provider_41', 'provider_04']
        const queried = ['provider_02', 'provider_04', 'provider_41']
        const rows = rowsOf(side, row => row.itemId === item_id && queried.includes(row.provider))
        const filters = { item_id, requested_providers: queried }
        await expectListing(side, { item_id, providers: keys }, { rows, filters, queried })
        const all = rowsOf(side, row => queried.includes(row.provider))
        await expectListing(
          side,
          { providers: keys, limit: 20, offset: 3 },
          { rows: all, filters: { requested_providers: queried }, queried },
        )
      })

      for (const currency of ['EUR', 'CNY', 'JPY', 'BTC', 'VEF', 'VEB'])
        it(`in ${currency}`, async () => {
          const { item_id } = scenario.items.full
          await expectItem(item_id, { item_id, currency }, { item_id })
        })

      it('of everything, page by page in stable order', async () => {
        const rows = rowsOf(side)
        await expectListing(side, {}, { rows, filters: {} })
        for (const limit of [1, 37, 250, 1000]) {
          const last = Math.floor(rows.length / limit) * limit
          const offsets = [0, limit, last, last + limit, scenario.random.integer(0, rows.length)]
          for (const offset of offsets) await expectListing(side, { limit, offset }, { rows, filters: {} })
        }
      })

      it('of what the catalog does not know are a 404', async () => {
        const unphased = query({ market_hash_name: scenario.items.full.market_hash_name, phase: 'Ruby' })
        for (const text of ['item_id=2000000000', 'market_hash_name=No+such+thing', unphased]) {
          const { status, body } = await scenario.ask(`/v1/${side === 'ask' ? 'prices' : 'bids'}?${text}`)
          expect([status, body.code], text).to.deep.equal([404, 'ITEM_NOT_FOUND'])
        }
      })
    })
  }

  describe('moments', () => {
    const itemRows = () => rowsOf('ask', row => row.itemId === scenario.items.full.item_id)
    const path = () => `/prices?item_id=${scenario.items.full.item_id}`

    /** Reads again and again, `readers` at once, for as long as something is written. */
    async function readWhile(write: () => Promise<void>, readers: number, read: () => Promise<void>): Promise<void> {
      let isWriting = true
      const writing = write().finally(() => {
        isWriting = false
      })
      const reading = async () => {
        while (isWriting) await read()
      }
      await Promise.all([writing, ...Array.from({ length: readers }, reading)])
    }

    it('shows a change, a withdrawal and a new refresh time with the next answer', async () => {
      const [first, second, third] = itemRows() as [ModelRow, ModelRow, ModelRow]
      const changed = { ...first, price: first.price + 1, priceMicroUsd: first.priceMicroUsd + 10_000 }
      const at = Math.max(...itemRows().map(row => row.seenAt)) + DAY_MS
      const refreshedAt = { ...scenario.refreshedAt, ask: { ...scenario.refreshedAt.ask, [third.provider]: at } }
      await scenario.write({ rows: [changed], removed: [second], refreshedAt })
      const { body } = await scenario.ask(path())
      const found = new Map(body.items.map((entry: { provider: string }) => [entry.provider, entry]))
      expect(found.get(first.provider)).to.deep.equal(entryOf(changed))
      expect(found.has(second.provider)).to.equal(false)
      expect(found.get(third.provider)).to.have.property('last_updated', iso(at))
      const listed = await scenario.ask(`/prices?providers=${second.provider}`)
      expect(listed.body.items.map((entry: { item_id: number }) => entry.item_id)).not.to.include(second.itemId)
      await scenario.write({ rows: [first, second] })
      expect((await scenario.ask(path())).body.items).to.deep.equal(itemRows().map(row => entryOf(row)))
      const later = { ...refreshedAt, ask: { ...refreshedAt.ask, [third.provider]: at + DAY_MS } }
      await scenario.write({ refreshedAt: later })
      const { body: alone } = await scenario.ask(path())
      const entry = alone.items.find(({ provider }: { provider: string }) => provider === third.provider)
      expect(entry, 'after a refresh without a change').to.have.property('last_updated', iso(at + DAY_MS))
      await scenario.write({})
    })

    it('never mixes the states before and after a flush', async () => {
      const rows = itemRows()
      const base = Math.max(...rows.map(row => row.seenAt)) + DAY_MS
      const state = (n: number) => ({
        rows: rows.map(row => ({ ...row, quantity: n + 1, seenAt: base })),
        refreshedAt: {
          ...scenario.refreshedAt,
          ask: Object.fromEntries(scenario.providers.map(({ key }) => [key, base + n * 1000])),
        },
      })
      await scenario.write(state(0))
      const seen = new Set<number>()
      const write = async () => {
        for (let n = 1; n <= 100; n++) {
          await scenario.write(state(n))
          if (n % 50 === 0) await eventually(() => seen.has(n + 1), `state ${n} to be seen`)
        }
      }
      await readWhile(write, 3, async () => {
        const { body } = await scenario.ask(path())
        const quantities = new Set<number>(body.items.map((entry: { quantity: number }) => entry.quantity))
        const refreshes = new Set<string>(body.items.map((entry: { last_updated: string }) => entry.last_updated))
        expect(quantities.size).to.equal(1)
        const [quantity] = quantities as unknown as [number]
        expect([...refreshes]).to.deep.equal([iso(base + (quantity - 1) * 1000)])
        seen.add(quantity)
      })
      await scenario.write({ rows })
    })

    it('never mixes them within a page of the listing either', async () => {
      const [provider] = scenario.providers as [Provider]
      const all = rowsOf('ask', row => row.provider === provider.key)
      // One partition alone changes, so that every answer must show it before or after.
      const partition = partitionOfItem(scenario.items.full.item_id)
      const moving = all.filter(row => partitionOfItem(row.itemId) === partition)
      const staying = all.filter(row => partitionOfItem(row.itemId) !== partition)
      const idsOf = (rows: ModelRow[]) => rows.map(row => row.itemId).join()
      const states = [idsOf(all), idsOf(staying)]
      const seen = new Set<string>()
      const write = async () => {
        for (let n = 0; n < 30; n++) {
          await scenario.write(n % 2 === 0 ? { removed: moving } : { rows: moving })
          // A market that never rests would force pages to be taken as they are.
          for (let reads = 0; reads < 4; reads++) await scenario.ask('/prices?limit=1')
          await eventually(() => seen.has(states[(n + 1) % 2] as string), 'both states to be seen')
        }
      }
      await readWhile(write, 2, async () => {
        const { body } = await scenario.ask(`/prices?providers=${provider.key}&limit=1000`)
        const ids = body.items.map((entry: { item_id: number }) => entry.item_id)
        expect(states).to.include(ids.join())
        expect(body.pagination.total).to.equal(ids.length)
        seen.add(ids.join())
      })
      await scenario.write({ rows: moving })
    })

    it('follows a rebuild into its version without an empty answer', async () => {
      const rows = itemRows()
      const partition = partitionOfItem(scenario.items.full.item_id)
      const expected = JSON.stringify(rows.map(row => entryOf(row)))
      const unlink = async (version: number) => {
        const keys = scenario.providers.map(({ key }) => listingKey(partition, version, 'ask', key, platform.namespace))
        const own = itemKey(partition, version, 'ask', scenario.items.full.item_id, platform.namespace)
        await scenario.redis.unlink(own, ...keys)
      }
      await scenario.ask(path())
      await scenario.write({ rows: scenario.rows, version: 9 })
      await unlink(3)
      expect(JSON.stringify((await scenario.ask(path())).body.items)).to.equal(expected)
      const rebuild = async () => {
        for (let version = 10; version < 20; version++) {
          await scenario.write({ rows: scenario.rows, version })
          await unlink(version - 1)
          await scenario.ask('/prices?limit=5')
        }
      }
      await readWhile(rebuild, 2, async () => {
        const { status, body } = await scenario.ask(path())
        expect(status).to.equal(200)
        expect(JSON.stringify(body.items)).to.equal(expected)
      })
      const { body } = await scenario.ask('/prices?limit=1000')
      expect(body.items).to.deep.equal(
        rowsOf('ask')
          .slice(0, 1000)
          .map(row => entryOf(row)),
      )
      await scenario.write({ rows: scenario.rows })
    })

    it('is unavailable, and not empty, while a partition has no view', async () => {
      const [{ item_id, phase }] = scenario.items.phases as [CatalogItem]
      const head = headKey(partitionOfItem(item_id), platform.namespace)
      const text = (await scenario.redis.get(head)) as string
      await scenario.redis.del(head)
      const paths = [`/prices?item_id=${item_id}`, '/prices', `/prices?${query({ phase: phase as string })}`]
      for (const one of paths) {
        const { status, body } = await scenario.ask(one)
        expect([status, body.code], one).to.deep.equal([503, 'PRICES_INDEX_UNAVAILABLE'])
      }
      const bids = await scenario.ask('/bids')
      expect([bids.status, bids.body.code]).to.deep.equal([503, 'BIDS_INDEX_UNAVAILABLE'])
      await scenario.redis.set(head, text)
      for (const one of paths) expect((await scenario.ask(one)).status, one).to.equal(200)
    })
  })
})

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
