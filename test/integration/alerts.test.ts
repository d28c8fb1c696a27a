import { expect } from 'chai'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { type AlertMarket, openAlertMarket } from '#test/fixtures/alert-market.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { Answer } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const USD = 1_000_000

describe('alerts', () => {
  const platform = useServers()
  let scenario: ApiScenario
  let market: AlertMarket
  let itemIds: number[]
  let used = 0

  before('a service, its accounts and a book', async () => {
    scenario = await openApiScenario(platform, 20)
    market = await openAlertMarket(platform.connect())
    await market.rates({ EUR: '0.5' })
    const roles = await platform.startRoles(['alerts', 'alert-triggers'])
    await roles.ready()
    itemIds = scenario.catalog.map(item => item.item_id)
  })
  after(async () => {
    await market.close()
    await scenario.close()
  })

  /** Resolves when the log holds every rule, which from then on sees each change. */
  const inForce = async () => {
    const waiting = () => scenario.database.rows('SELECT id FROM outbox LIMIT 1')
    await eventually(async () => (await waiting()).length === 0, 'the rules to be in the log')
  }

  const newItem = (): number => itemIds[used++] as number

  async function owner(tier: 'free' | 'starter' | 'pro' | 'quant' = 'pro', email?: string | null) {
    const account = { tier, ...(email !== undefined && { email }) }
    const { account_id, key } = await createAccountWithKey(scenario.database, account)
    const call = (method: string, path: string, body?: unknown) =>
      scenario.ask(`/v1/account/alerts${path}`, { as: key, method, body })
    return {
      accountId: account_id,
      call,
      create: (body: object) => call('POST', '', body),
      alert: async (id: string) =>
        (await call('GET', '?limit=200')).body.alerts.find((one: { id: string }) => one.id === id),
      events: async (): Promise<Record<string, unknown>[]> => (await call('GET', '/events')).body.events,
    }
  }
  const ask = (itemId: number, usd: number, provider = 'provider_01') =>
    market.move([{ side: 'ask', provider, itemId, micro: Math.round(usd * USD) }])
  const below = (item_id: number, threshold_value: string, more: object = {}) => {
    return { item_id, kind: 'price_below', threshold_value, ...more }
  }

  describe('the state table', () => {
    it('none -> enabled: is_enabled left out or true needs a channel and counts against the cap, else 402', async () => {
      const free = await owner('free')
      for (let each = 0; each < 10; each++) {
        const more = each % 2 === 0 ? {} : { is_enabled: true }
        const { status, body } = await free.create(below(newItem(), '1', more))
        expect([status, body.is_enabled]).to.deep.equal([201, true])
      }
      const refused = await free.create(below(newItem(), '1'))
      expect([refused.status, refused.body.code]).to.deep.equal([402, 'ALERT_LIMIT_REACHED'])
      const silent = await owner('pro', null)
      expect((await silent.create(below(newItem(), '1'))).body.code).to.equal('NO_DELIVERY_CHANNEL')
    })

    it('none -> disabled: is_enabled false needs no channel and does not count', async () => {
      const silent = await owner('free', null)
      for (let each = 0; each < 12; each++) {
        const { status, body } = await silent.create(below(newItem(), '1', { is_enabled: false }))
        expect([status, body.is_enabled]).to.deep.equal([201, false])
      }
    })

    it('enabled -> disabled: the market matches, an event is created and delivered, once', async () => {
      const [one, itemId] = [await owner(), newItem()]
      await ask(itemId, 12)
      const { body: alert } = await one.create(below(itemId, '10.50'))
      await inForce()
      await ask(itemId, 11)
      await ask(itemId, 10.25, 'provider_02')
      await ask(itemId, 10.2, 'provider_02')
      await eventually(async () => (await one.alert(alert.id)).is_enabled === false, 'the alert to fire')
      const [event, ...others] = await one.events()
      expect(others).to.deep.equal([])
      const reason = 'The best ask of 10.25 USD at provider_02 is below 10.50 USD.'
      const triggered = { triggered_value: '10.25', triggered_currency: 'USD', reason }
      expect(event).to.deep.include({ alert_id: alert.id, kind: 'price_below', item: alert.item, ...triggered })
      expect((await one.alert(alert.id)).last_triggered_at).to.equal(event?.created_at)
      const deliveries = async () => (await one.events())[0]?.deliveries as { channel: string }[]
      await eventually(async () => (await deliveries()).length > 0, 'its delivery')
      expect((await deliveries()).map(({ channel }) => channel)).to.deep.equal(['email'])
    })

    it('disabled -> enabled: an update passes the checks of creation', async () => {
      const free = await owner('free')
      const made = await free.create(below(newItem(), '1', { is_enabled: false }))
      const enable = () => free.call('PATCH', `/${made.body.id}`, { is_enabled: true })
      expect((await enable()).body).to.include({ is_enabled: true, id: made.body.id })
      await free.call('PATCH', `/${made.body.id}`, { is_enabled: false })
      for (let each = 0; each < 10; each++) await free.create(below(newItem(), '1'))
      expect((await enable()).body.code).to.equal('ALERT_LIMIT_REACHED')
      await scenario.database.rows('UPDATE accounts SET email_verified_at = NULL WHERE id = $1', [free.accountId])
      const unverified = await enable()
      expect([unverified.status, unverified.body.code]).to.deep.equal([403, 'EMAIL_NOT_VERIFIED'])
      expect((await free.alert(made.body.id)).is_enabled).to.equal(false)
    })

    it('enabled -> disabled: after its delivery an alert stays disabled until it is enabled again', async () => {
      const [one, itemId] = [await owner(), newItem()]
      await ask(itemId, 9)
      const { body: alert } = await one.create(below(itemId, '10'))
      const fired = (count: number) => eventually(async () => (await one.events()).length === count, `event ${count}`)
      await fired(1)
      await ask(itemId, 12)
      await ask(itemId, 8)
      const { body: witness } = await one.create(below(itemId, '8.5'))
      await fired(2)
      expect((await one.alert(alert.id)).is_enabled).to.equal(false)
      expect((await one.events()).map(event => event.alert_id)).to.deep.equal([witness.id, alert.id])
      await one.call('PATCH', `/${alert.id}`, { is_enabled: true })
      await fired(3)
      expect((await one.events())[0]?.alert_id).to.equal(alert.id)
    })
  })

  it('one that is deleted, disabled or changed before it fires does not fire as it was', async () => {
    const [one, itemId] = [await owner(), newItem()]
    await ask(itemId, 10)
    const made = await Promise.all(['9', '9', '9'].map(value => one.create(below(itemId, value))))
    const [gone, off, changed] = made.map(({ body }) => body.id as string)
    expect((await one.call('DELETE', `/${gone}`)).body).to.deep.equal({ ok: true })
    expect((await one.call('PATCH', `/${off}`, { is_enabled: false })).body.is_enabled).to.equal(false)
    const { body } = await one.call('PATCH', `/${changed}`, { threshold_value: '5.00' })
    expect(body.threshold_value).to.equal('5.00')
    const { body: witness } = await one.create(below(itemId, '8'))
    const fired = async () => (await one.events()).map(event => event.alert_id)
    await ask(itemId, 7)
    await eventually(async () => (await fired()).length === 1, 'the witness')
    expect(await fired()).to.deep.equal([witness.id])
    await ask(itemId, 4)
    await eventually(async () => (await fired()).length === 2, 'the changed one')
    expect(await fired()).to.deep.equal([changed, witness.id])
  })

  describe('routes', () => {
    it('a batch answers entry by entry in its order; duplicates and unknown items fail alone', async () => {
      const [one, itemId] = [await owner(), newItem()]
      const entries = [
        below(itemId, '1.50'),
        below(itemId, '1.5'),
        below(itemId, '1.50', { threshold_currency: 'EUR' }),
        { item_id: itemId, kind: 'price_above', threshold_value: '1.50' },
        below(2_000_000_000, '1'),
        below(itemId, '2', { is_enabled: false }),
      ]
      const { status, body } = await one.call('POST', '/batch', { alerts: entries })
      expect([status, body.created, body.failed]).to.deep.equal([200, 4, 2])
      const results = body.results.map((each: { index: number; code: string | null }) => [each.index, each.code])
      const codes = [null, 'DUPLICATE_ALERT', null, null, 'ITEM_NOT_FOUND', null]
      expect(results).to.deep.equal(codes.map((code, index) => [index, code]))
      const listed = (await one.call('GET', '')).body.alerts.map((each: { id: string }) => each.id)
      const made = body.results.flatMap((each: { alert_id: string | null }) => each.alert_id ?? [])
      expect(listed).to.deep.equal(made.reverse())
    })

    it('a batch beyond the cap creates nothing', async () => {
      const free = await owner('free')
      const alerts = Array.from({ length: 11 }, () => below(newItem(), '1'))
      const { status, body } = await free.call('POST', '/batch', { alerts })
      expect([status, body.code]).to.deep.equal([402, 'ALERT_LIMIT_REACHED'])
      expect((await free.call('GET', '')).body.pagination.total).to.equal(0)
      expect((await free.call('POST', '/batch', { alerts: alerts.slice(1) })).body.created).to.equal(10)
    })

    it('lists newest first, page by page, found by item id or part of a name', async () => {
      const one = await owner()
      const items = scenario.catalog.slice(100, 105)
      for (const { item_id } of items) await one.create(below(item_id, '0.00000001'))
      const ids = (answer: Answer) => answer.body.alerts.map((each: { item: { item_id: number } }) => each.item.item_id)
      const newest = items.map(item => item.item_id).reverse()
      expect(ids(await one.call('GET', ''))).to.deep.equal(newest)
      const second = await one.call('GET', '?limit=2&offset=2')
      expect(ids(second)).to.deep.equal(newest.slice(2, 4))
      expect(second.body.pagination).to.deep.equal({ limit: 2, offset: 2, total: 5, has_next: true, has_prev: true })
      expect((await one.call('GET', '?limit=0')).body.pagination.limit).to.equal(1)
      expect((await one.call('GET', '?limit=999')).body.pagination.limit).to.equal(200)
      expect(ids(await one.call('GET', `?search=${newest[1]}`))).to.deep.equal([newest[1]])
      const part = (items[0]?.market_hash_name ?? '').slice(2, 9).toUpperCase()
      const named = items.filter(item => item.market_hash_name.toUpperCase().includes(part)).map(item => item.item_id)
      expect(ids(await one.call('GET', `?search=${encodeURIComponent(part)}`))).to.deep.equal(named.reverse())
      expect(ids(await one.call('GET', '?search=%25'))).to.deep.equal([])
    })

    it('refuses a threshold that is not above zero, or that is no number', async () => {
      const one = await owner()
      for (const [threshold_value, type] of [
        ['0.00', 'greater_than'],
        ['1e3', 'float_parsing'],
        ['9'.repeat(400), 'value_error'],
      ]) {
        const refused = await one.create(below(1, '1', { threshold_value }))
        const faults = refused.body.detail.map((each: { type: string; loc: unknown[] }) => [each.type, each.loc])
        expect([refused.status, faults]).to.deep.equal([422, [[type, ['body', 'threshold_value']]]])
      }
    })

    it('refuses an empty change, and an item that is not in the catalog', async () => {
      const one = await owner()
      const { body: alert } = await one.create(below(newItem(), '1'))
      expect((await one.call('PATCH', `/${alert.id}`, {})).status).to.equal(422)
      expect((await one.call('PATCH', `/${alert.id}`, { is_enabled: null })).status).to.equal(422)
      expect((await one.create(below(2_000_000_000, '1'))).body.code).to.equal('ITEM_NOT_FOUND')
      expect((await one.create(below(9_007_199_254_740_991, '1'))).body.code).to.equal('ITEM_NOT_FOUND')
    })
  })
})
