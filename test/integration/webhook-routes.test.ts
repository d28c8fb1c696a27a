/**
 * The routes of webhooks: what they refuse, whom they serve, and where secrets may not be.
 */
import { expect } from 'chai'
import { TIERS } from '#infra/config/tiers.ts'
import { openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const SOME_ID = '0195a3c2-6b1e-7c40-9d2e-5f0a1b2c3d4e'
const ROOT = '/v1/account/webhooks'

describe('routes of webhooks', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let account: TestAccount
  let stranger: TestAccount
  before('roles and receivers', async () => {
    scenario = await openWebhookScenario(platform, { receivers: 2 })
    account = await scenario.account()
    stranger = await scenario.account()
  })
  after('end of the roles', () => scenario.close())

  const url = () => `${scenario.receivers[0]?.url}/hook`
  const create = (body: object, as = account) => scenario.ask(as, 'POST', ROOT, body)

  it('take 20 destinations of an account, also when the last are asked for at once', async () => {
    const mine = await scenario.account()
    for (let i = 0; i < 18; i++) await create({ label: `n${i}`, url: url() }, mine)
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, i) => create({ label: `n${18 + i}`, url: url() }, mine)),
    )
    expect(answers.filter(answer => answer.status === 201)).to.have.length(2)
    for (const { status, body } of answers.filter(answer => answer.status !== 201)) {
      expect([status, body.code]).to.deep.equal([409, 'WEBHOOK_LIMIT_REACHED'])
    }
    const { body } = await scenario.ask(mine, 'GET', ROOT)
    expect(body.webhooks).to.have.length(20)
    const ids = body.webhooks.map((webhook: { id: string }) => webhook.id)
    expect(ids, 'newest first').to.deep.equal([...ids].sort().reverse())
    await scenario.ask(mine, 'DELETE', `${ROOT}/${ids[0]}`)
    expect((await create({ label: 'again', url: url() }, mine)).status).to.equal(201)
  })

  const refused: { name: string; body: () => object; loc: unknown[]; type: string }[] = [
    { name: 'no label', body: () => ({ url: url() }), loc: ['label'], type: 'missing' },
    { name: 'an empty label', body: () => ({ label: '', url: url() }), loc: ['label'], type: 'string_too_short' },
    {
      name: 'a label of 101',
      body: () => ({ label: 'x'.repeat(101), url: url() }),
      loc: ['label'],
      type: 'string_too_long',
    },
    { name: 'no url', body: () => ({ label: 'a' }), loc: ['url'], type: 'missing' },
    { name: 'a url that is none', body: () => ({ label: 'a', url: 'nope' }), loc: ['url'], type: 'url_parsing' },
    {
      name: 'another scheme',
      body: () => ({ label: 'a', url: 'ftp://a.example/' }),
      loc: ['url'],
      type: 'url_parsing',
    },
    { name: 'javascript', body: () => ({ label: 'a', url: 'javascript:alert(1)' }), loc: ['url'], type: 'url_parsing' },
    {
      name: 'a line feed',
      body: () => ({ label: 'a', url: 'http://a.exam\nple/' }),
      loc: ['url'],
      type: 'url_parsing',
    },
    {
      name: 'user info',
      body: () => ({ label: 'a', url: 'http://u:p@a.example/' }),
      loc: ['url'],
      type: 'value_error',
    },
    {
      name: 'a literal private address',
      body: () => ({ label: 'a', url: 'http://0x0a.1/' }),
      loc: ['url'],
      type: 'value_error',
    },
    {
      name: 'a literal loopback',
      body: () => ({ label: 'a', url: 'https://[::1]/' }),
      loc: ['url'],
      type: 'value_error',
    },
    {
      name: 'a url of 2001',
      body: () => ({ label: 'a', url: `http://a.example/${'x'.repeat(2_000)}` }),
      loc: ['url'],
      type: 'string_too_long',
    },
    {
      name: 'an unknown platform',
      body: () => ({ label: 'a', url: url(), platform: 'fax' }),
      loc: ['platform'],
      type: 'enum',
    },
    {
      name: 'telegram without a chat',
      body: () => ({ label: 'a', url: url(), platform: 'telegram' }),
      loc: ['url'],
      type: 'value_error',
    },
    {
      name: 'is_active as text',
      body: () => ({ label: 'a', url: url(), is_active: 'no' }),
      loc: ['is_active'],
      type: 'bool_parsing',
    },
    {
      name: 'a member too many',
      body: () => ({ label: 'a', url: url(), secret: 'x' }),
      loc: ['secret'],
      type: 'extra_forbidden',
    },
  ]
  for (const { name, body, loc, type } of refused)
    it(`refuse ${name}`, async () => {
      const { status, body: answer } = await create(body())
      expect([status, answer.code]).to.deep.equal([422, 'VALIDATION_ERROR'])
      expect(answer.detail.map((one: { loc: unknown; type: string }) => [one.loc, one.type])).to.deep.equal([
        [['body', ...loc], type],
      ])
    })

  it('change what is sent and leave the rest, null included', async () => {
    const { body: made } = await create({ label: 'first', url: url(), platform: null, is_active: null })
    const { body } = await scenario.ask(account, 'PATCH', `${ROOT}/${made.webhook.id}`, { label: 'second', url: null })
    expect(body).to.include({ ...made.webhook, label: 'second', updated_at: body.updated_at })
    expect(Date.parse(body.updated_at)).to.be.at.least(Date.parse(made.webhook.updated_at))
    for (const empty of [{}, { label: null }]) {
      expect((await scenario.ask(account, 'PATCH', `${ROOT}/${made.webhook.id}`, empty)).status).to.equal(422)
    }
    const telegram = await scenario.ask(account, 'PATCH', `${ROOT}/${made.webhook.id}`, { platform: 'telegram' })
    expect([telegram.status, telegram.body.detail[0].loc]).to.deep.equal([422, ['body', 'url']])
    const chat = { platform: 'telegram', url: `${url()}?chat_id=1` }
    expect((await scenario.ask(account, 'PATCH', `${ROOT}/${made.webhook.id}`, chat)).body).to.include(chat)
    const without = await scenario.ask(account, 'PATCH', `${ROOT}/${made.webhook.id}`, { url: url() })
    expect(without.status).to.equal(422)
  })

  it('are for quant alone, and not without a key', async () => {
    for (const tier of TIERS.filter(one => one !== 'quant')) {
      const lower = await scenario.account({ tier })
      for (const [method, path] of operations(SOME_ID)) {
        const { status, body } = await scenario.ask(lower, method, path, method === 'POST' ? {} : undefined)
        expect([status, body.code], `${tier} ${method} ${path}`).to.deep.equal([403, 'FORBIDDEN_TIER'])
      }
    }
    expect((await scenario.ask(null, 'GET', ROOT)).status).to.equal(401)
  })

  it("do not find another account's destinations and deliveries, nor change them", async () => {
    const webhook = await scenario.webhook(account, scenario.receivers[1] as (typeof scenario.receivers)[number])
    const eventId = await scenario.event(account)
    const delivery = await eventually(async () => {
      const { body } = await scenario.ask(account, 'GET', `${ROOT}/deliveries?limit=100`)
      return body.deliveries.find(
        (one: { endpoint_id: string; event_id: string; status: string }) =>
          one.endpoint_id === webhook.id && one.event_id === eventId && one.status === 'succeeded',
      )
    }, 'the delivery')
    const count = scenario.receivers[1]?.received.length
    for (const [method, path] of operations(webhook.id, delivery.id)) {
      if (!path.includes(webhook.id) && !path.includes(delivery.id)) continue
      const { status, body } = await scenario.ask(
        stranger,
        method,
        path,
        method === 'PATCH' ? { label: 'taken' } : undefined,
      )
      expect([status, body.code], `${method} ${path}`).to.be.deep.oneOf([
        [404, 'WEBHOOK_NOT_FOUND'],
        [404, 'DELIVERY_NOT_FOUND'],
      ])
    }
    expect((await scenario.ask(stranger, 'GET', ROOT)).body).to.deep.equal({ webhooks: [] })
    expect((await scenario.ask(stranger, 'GET', `${ROOT}/deliveries`)).body.deliveries).to.deep.equal([])
    const { body } = await scenario.ask(account, 'GET', ROOT)
    expect(body.webhooks.find((one: { id: string }) => one.id === webhook.id)).to.include({ label: 'test' })
    expect(scenario.receivers[1]?.received).to.have.length(count ?? -1)
  })

  it('refuse ids that are none, and report what is unknown', async () => {
    for (const [method, path] of operations('nonsense', 'nonsense')) {
      if (!path.includes('nonsense')) continue
      const given = method === 'PATCH' ? { label: 'x' } : undefined
      const { status, body } = await scenario.ask(account, method, path, given)
      expect([status, body.detail[0].type], `${method} ${path}`).to.deep.equal([422, 'uuid_parsing'])
    }
    expect((await scenario.ask(account, 'DELETE', `${ROOT}/${SOME_ID}`)).body.code).to.equal('WEBHOOK_NOT_FOUND')
    const delivery = await scenario.ask(account, 'GET', `${ROOT}/deliveries/${SOME_ID}`)
    expect(delivery.body.code).to.equal('DELIVERY_NOT_FOUND')
  })

  it('send a test event on demand, and none to a paused destination', async () => {
    const mine = await scenario.account()
    const at = scenario.receivers[1] as (typeof scenario.receivers)[number]
    const webhook = await scenario.webhook(mine, at, { path: '/tested' })
    const { body } = await scenario.ask(mine, 'POST', `${ROOT}/${webhook.id}/test`)
    const shown = await scenario.ask(mine, 'GET', `${ROOT}/deliveries/${body.delivery_id}`)
    expect(shown.body, 'it is there at once').to.include({ endpoint_id: webhook.id, event_type: 'alert.triggered' })
    const request = await eventually(() => at.received.find(({ path }) => path === '/tested'), 'the test event')
    expect(request.headers).to.include({ 'x-svc-delivery-id': body.delivery_id, 'x-svc-test': 'true' })
    expect(JSON.parse(request.body).data.alert_id).to.match(/^0{8}-/)
    await scenario.ask(mine, 'PATCH', `${ROOT}/${webhook.id}`, { is_active: false })
    for (const path of [`${ROOT}/${webhook.id}/test`, `${ROOT}/deliveries/${body.delivery_id}/redeliver`]) {
      const refusal = await scenario.ask(mine, 'POST', path)
      expect([refusal.status, refusal.body.code]).to.deep.equal([409, 'WEBHOOK_PAUSED'])
    }
    await scenario.ask(mine, 'DELETE', `${ROOT}/${webhook.id}`)
    const gone = await scenario.ask(mine, 'POST', `${ROOT}/deliveries/${body.delivery_id}/redeliver`)
    expect(gone.body.code).to.equal('WEBHOOK_NOT_FOUND')
  })

  it('page deliveries newest first, with limits moved into 1 to 100', async () => {
    const mine = await scenario.account()
    const webhook = await scenario.webhook(mine, scenario.receivers[1] as (typeof scenario.receivers)[number])
    const ids: string[] = []
    for (let n = 0; n < 7; n++)
      ids.unshift((await scenario.ask(mine, 'POST', `${ROOT}/${webhook.id}/test`)).body.delivery_id)
    const page = async (query: string) => (await scenario.ask(mine, 'GET', `${ROOT}/deliveries${query}`)).body
    const idsOf = (body: { deliveries: { id: string }[] }) => body.deliveries.map(({ id }) => id)
    expect(idsOf(await page(''))).to.deep.equal(ids)
    const middle = await page('?limit=3&offset=2')
    expect(idsOf(middle)).to.deep.equal(ids.slice(2, 5))
    expect(middle.pagination).to.deep.equal({ limit: 3, offset: 2, total: 7, has_next: true, has_prev: true })
    expect((await page('?limit=0')).pagination).to.include({ limit: 1, has_prev: false })
    expect((await page('?limit=-5')).pagination).to.include({ limit: 1 })
    expect((await page('?limit=5000')).pagination).to.include({ limit: 100, has_next: false })
    expect((await page('')).pagination).to.include({ limit: 25 })
  })

  it('show a secret once: no list, no record, no log line, no row of the database holds it', async () => {
    const mine = await scenario.account()
    const { body: made } = await create({ label: 'kept', url: url() }, mine)
    const { body: rotated } = await scenario.ask(mine, 'POST', `${ROOT}/${made.webhook.id}/rotate-secret`)
    await scenario.ask(mine, 'POST', `${ROOT}/${made.webhook.id}/test`)
    const shown = JSON.stringify([
      await scenario.ask(mine, 'GET', ROOT),
      await scenario.ask(mine, 'PATCH', `${ROOT}/${made.webhook.id}`, { label: 'b' }),
    ])
    const tables = await scenario.database.rows<{ name: string }>(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname IN ('public', 'graphile_worker')`,
    )
    expect(tables.length).to.be.greaterThan(10)
    for (const { secret } of [made, rotated]) {
      const core = secret.slice('whsec_'.length)
      expect(shown).not.to.include(core)
      for (const { name } of tables) {
        const found = await scenario.database.rows(`SELECT 1 FROM ${name} t WHERE strpos(t::text, $1) > 0`, [core])
        expect(found, name).to.deep.equal([])
      }
    }
  })
})

/** Every operation of webhooks. */
function operations(id: string, deliveryId = id): [method: string, path: string][] {
  return [
    ['GET', ROOT],
    ['POST', ROOT],
    ['PATCH', `${ROOT}/${id}`],
    ['DELETE', `${ROOT}/${id}`],
    ['POST', `${ROOT}/${id}/rotate-secret`],
    ['POST', `${ROOT}/${id}/test`],
    ['GET', `${ROOT}/deliveries`],
    ['GET', `${ROOT}/deliveries/${deliveryId}`],
    ['POST', `${ROOT}/deliveries/${deliveryId}/redeliver`],
  ]
}
