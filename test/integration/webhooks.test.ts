/**
 * Webhooks from the event to the receiver: what is sent, how it is signed, and what the API shows of it.
 */
import { createHmac } from 'node:crypto'
import { expect } from 'chai'
import { alertTriggeredBody } from '#schemas/api/webhooks.ts'
import { status } from '#test/fixtures/webhook-receiver.ts'
import { EVENT, openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('webhooks', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let account: TestAccount
  before('roles and receivers', async () => {
    scenario = await openWebhookScenario(platform, { receivers: 4 })
    account = await scenario.account()
  })
  after('end of the roles', () => scenario.close())

  const receiver = (n: number) => {
    const one = scenario.receivers[n]
    if (!one) throw new Error('there are fewer receivers')
    return one
  }
  const settled = (accountId: TestAccount, eventId: string) =>
    eventually(async () => {
      const { body } = await scenario.ask(accountId, 'GET', '/v1/account/webhooks/deliveries?limit=100')
      const own = body.deliveries.filter((one: { event_id: string }) => one.event_id === eventId)
      return own.length > 0 && own.every((one: { status: string }) => one.status !== 'pending') ? own : undefined
    }, 'the deliveries to be settled')

  it('carry the signed event to every active destination, and the API shows all of it', async () => {
    const [one, other] = [await scenario.webhook(account, receiver(0)), await scenario.webhook(account, receiver(1))]
    await scenario.webhook(account, receiver(2), { is_active: false })
    receiver(0).answerWith(response => void response.writeHead(200).end('thank\u0007 you'))
    const firedAt = Math.floor(Date.now() / 1000)
    const eventId = await scenario.event(account)
    const deliveries = await settled(account, eventId)
    expect(deliveries.map((delivery: { endpoint_id: string }) => delivery.endpoint_id).sort()).to.deep.equal(
      [one.id, other.id].sort(),
    )
    for (const { id, secret, receiver: at } of [one, other]) {
      expect(at.received).to.have.length(1)
      const [request] = at.received
      const delivery = deliveries.find((each: { endpoint_id: string }) => each.endpoint_id === id)
      const { headers, body } = request as (typeof at.received)[number]
      expect(request).to.include({ method: 'POST', path: '/hook' })
      expect(headers['content-type']).to.equal('application/json')
      expect(headers['x-svc-event-type']).to.equal('alert.triggered')
      expect(headers['x-svc-delivery-id']).to.equal(delivery.id)
      expect(Number(headers['x-svc-timestamp'])).to.be.within(firedAt, Date.now() / 1000)
      const expected = createHmac('sha256', secret).update(`${headers['x-svc-timestamp']}.${body}`).digest('hex')
      expect(headers['x-svc-signature']).to.equal(expected)
      const event = alertTriggeredBody.parse(JSON.parse(body))
      expect(event).to.deep.include({
        id: eventId,
        type: 'alert.triggered',
        created_at: EVENT.created_at.toISOString(),
      })
      expect(event.data).to.deep.include({
        kind: 'price_below',
        item_id: 4940,
        market_hash_name: EVENT.market_hash_name,
        phase: null,
        threshold_value: '30.00',
        threshold_currency: 'EUR',
        triggered_value: '29.31',
        triggered_currency: 'EUR',
        best_ask_usd: '31.46',
        best_bid_usd: '27.10',
        providers: { ask: 'provider_02', bid: 'provider_12' },
      })
      const shown = await scenario.ask(account, 'GET', `/v1/account/webhooks/deliveries/${delivery.id.toUpperCase()}`)
      expect(shown.body).to.deep.include({ ...delivery, payload: event })
      expect(shown.body).to.include({ status: 'succeeded', attempt_count: 1, last_http_status: 200, error: null })
      expect(shown.body.id).to.match(UUID_V7)
      expect(shown.body.attempts).to.have.length(1)
      expect(shown.body.attempts[0]).to.include({
        attempt_number: 1,
        status: 'succeeded',
        http_status: 200,
        error: null,
      })
    }
    const first = deliveries.find((each: { endpoint_id: string }) => each.endpoint_id === one.id)
    const shown = await scenario.ask(account, 'GET', `/v1/account/webhooks/deliveries/${first.id}`)
    expect(shown.body.attempts[0].response_body_excerpt).to.equal('thank you')
    expect(receiver(2).connections()).to.equal(0)
    const { body } = await scenario.ask(account, 'GET', '/v1/account/webhooks')
    const record = body.webhooks.find((each: { id: string }) => each.id === one.id)
    expect(record.last_success_at).to.be.a('string')
    expect(record).to.include({ last_failure_at: null, last_failure_message: null, platform: 'custom' })
  })

  it('are tried again with the same id after 503, and no more after 400', async () => {
    const mine = await scenario.account()
    receiver(3).answerWith((response, _request, n) =>
      status(n === 1 ? 503 : 400, { 'retry-after': '3600' })(response, _request, n),
    )
    const { id } = await scenario.webhook(mine, receiver(3))
    const eventId = await scenario.event(mine)
    const pending = await eventually(async () => {
      const { body } = await scenario.ask(mine, 'GET', '/v1/account/webhooks/deliveries')
      return body.deliveries.find((one: { last_http_status: number | null }) => one.last_http_status === 503)
    }, 'the first attempt')
    expect(pending).to.include({ status: 'pending', attempt_count: 1, error: 'The destination answered 503.' })
    expect(pending.next_attempt_at).to.be.a('string')
    await scenario.hurry(id)
    const [failed] = await settled(mine, eventId)
    expect(failed).to.include({ status: 'failed', attempt_count: 2, last_http_status: 400, next_attempt_at: null })
    const ids = receiver(3).received.map(({ headers }) => headers['x-svc-delivery-id'])
    expect(ids).to.deep.equal([failed.id, failed.id])
  })
})
