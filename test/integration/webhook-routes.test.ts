import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { openPortBook } from '#infra/stack/ports.ts'
import { snippetsOf } from '#test/fixtures/guide-snippets.ts'
import { openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ROOT = '/v1/account/webhooks'

describe('routes of webhooks', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let account: TestAccount
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-receiver-'))
  /** Of the receiver of the guide. */
  let port: number
  before('roles and receivers', async () => {
    port = await openPortBook(folder)('receiver')
    scenario = await openWebhookScenario(platform, { receivers: 2, beside: [{ port }] })
    account = await scenario.account()
  })
  after('end of the roles', async () => {
    rmSync(folder, { recursive: true, force: true })
    await scenario.close()
  })

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

  it('refuse URLs that lead where they may not, or not where they seem to', async () => {
    for (const [type, body] of [
      ['url_parsing', { url: 'javascript:alert(1)' }],
      ['value_error', { url: 'http://u:p@a.example/' }],
      ['value_error', { url: 'http://0x0a.1/' }],
      ['value_error', { platform: 'telegram' }],
    ] as const) {
      const { status, body: answer } = await create({ label: 'a', url: url(), ...body })
      expect([status, answer.code]).to.deep.equal([422, 'VALIDATION_ERROR'])
      const faults = answer.detail.map((one: { loc: unknown; type: string }) => [one.loc, one.type])
      expect(faults).to.deep.equal([[['body', 'url'], type]])
    }
  })

  it('change what is sent and leave the rest, null included', async () => {
    const { body: made } = await create({ label: 'first', url: url(), platform: null, is_active: null })
    const patch = (body: object) => scenario.ask(account, 'PATCH', `${ROOT}/${made.webhook.id}`, body)
    const { body } = await patch({ label: 'second', url: null })
    expect(body).to.include({ ...made.webhook, label: 'second', updated_at: body.updated_at })
    expect(Date.parse(body.updated_at)).to.be.at.least(Date.parse(made.webhook.updated_at))
    for (const empty of [{}, { label: null }]) expect((await patch(empty)).status).to.equal(422)
    const telegram = await patch({ platform: 'telegram' })
    expect([telegram.status, telegram.body.detail[0].loc]).to.deep.equal([422, ['body', 'url']])
    const chat = { platform: 'telegram', url: `${url()}?chat_id=1` }
    expect((await patch(chat)).body).to.include(chat)
    expect((await patch({ url: url() })).status).to.equal(422)
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
    for (const [query, shown] of [
      ['?limit=-5', 1],
      ['?limit=5000', 100],
      ['', 25],
    ] as const)
      expect((await page(query)).pagination.limit).to.equal(shown)
  })

  it('lead to the receiver of the guide, which takes what is genuine, and answers 401 to what is forged, altered or old', async () => {
    const [receiver] = snippetsOf('webhooks').filter(({ label }) => label === 'receiver')
    const file = join(folder, 'receiver.cjs')
    writeFileSync(file, receiver?.code ?? '')
    const mine = await scenario.account()
    const at = `http://127.0.0.1:${port}/`
    const made = await scenario.ask(mine, 'POST', ROOT, { label: 'guide', url: at })
    const child = spawn(process.execPath, [file], {
      env: { WEBHOOK_SECRET: made.body.secret, PORT: String(port) },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let printed = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    try {
      const forge = (headers: Record<string, string>) =>
        fetch(at, { method: 'POST', headers, body: '{}' }).then(answer => answer.status)
      await eventually(async () => (await forge({})) === 401, 'the receiver to listen')
      const timestamp = String(Math.floor(Date.now() / 1000))
      for (const signature of ['', 'ab', 'x'.repeat(64), 'é', '0'.repeat(64)]) {
        const status = await forge({ 'x-svc-timestamp': timestamp, 'x-svc-signature': encodeURIComponent(signature) })
        expect(status, signature).to.equal(401)
      }
      expect(printed).to.equal('')
      const eventId = await scenario.event(mine)
      const [delivery] = await eventually(async () => {
        const { body } = await scenario.ask(mine, 'GET', `${ROOT}/deliveries`)
        return body.deliveries[0]?.status === 'succeeded' ? body.deliveries : undefined
      }, 'the delivery to be taken')
      expect(delivery).to.include({ event_id: eventId, last_http_status: 204 })
      await eventually(() => printed.includes(delivery.id), 'what the receiver prints')
    } finally {
      child.kill('SIGKILL')
    }
  })
})
