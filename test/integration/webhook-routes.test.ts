/** The routes of webhooks: what they refuse, whom they serve, and where secrets may not be. */
import { expect } from 'chai'
import { openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ROOT = '/v1/account/webhooks'

describe('routes of webhooks', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let account: TestAccount
  before('roles and receivers', async () => {
    scenario = await openWebhookScenario(platform, { receivers: 2 })
    account = await scenario.account()
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

  const refused: [what: string, body: object, type: string, member: string][] = [
    ['no label', { label: undefined }, 'missing', 'label'],
    ['an empty label', { label: '' }, 'string_too_short', 'label'],
    ['a label of 101', { label: 'x'.repeat(101) }, 'string_too_long', 'label'],
    ['no url', { url: undefined }, 'missing', 'url'],
    ['a url that is none', { url: 'nope' }, 'url_parsing', 'url'],
    ['another scheme', { url: 'ftp://a.example/' }, 'url_parsing', 'url'],
    ['javascript', { url: 'javascript:alert(1)' }, 'url_parsing', 'url'],
    ['a line feed', { url: 'http://a.exam\nple/' }, 'url_parsing', 'url'],
    ['user info', { url: 'http://u:p@a.example/' }, 'value_error', 'url'],
    ['a literal private address', { url: 'http://0x0a.1/' }, 'value_error', 'url'],
    ['a literal loopback', { url: 'https://[::1]/' }, 'value_error', 'url'],
    ['a url of 2001', { url: `http://a.example/${'x'.repeat(2_000)}` }, 'string_too_long', 'url'],
    ['an unknown platform', { platform: 'fax' }, 'enum', 'platform'],
    ['telegram without a chat', { platform: 'telegram' }, 'value_error', 'url'],
    ['is_active as text', { is_active: 'no' }, 'bool_parsing', 'is_active'],
    ['a member too many', { secret: 'x' }, 'extra_forbidden', 'secret'],
  ]
  for (const [what, body, type, member] of refused)
    it(`refuse ${what}`, async () => {
      const { status, body: answer } = await create({ label: 'a', url: url(), ...body })
      expect([status, answer.code]).to.deep.equal([422, 'VALIDATION_ERROR'])
      const faults = answer.detail.map((one: { loc: unknown; type: string }) => [one.loc, one.type])
      expect(faults).to.deep.equal([[['body', member], type]])
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
})
