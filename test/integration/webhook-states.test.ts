/**
 * Rules: DECISIONS.md, "Webhooks". No time is waited for: a destination that is to be tried again asks for hours, the time that
 * the service has set is read, and then said to have come.
 */
import { createHmac } from 'node:crypto'
import { expect } from 'chai'
import type { Database } from '#infra/postgres/pool.ts'
import { alertTriggeredBody } from '#schemas/api/alert-triggered.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { type BegunAttempt, concludeAttempt } from '#services/alerts/delivery/store.ts'
import { readDelivery } from '#services/alerts/webhooks/reader.ts'
import { verifyWebhook } from '#services/clients/typescript/src/webhooks.ts'
import { type Answering, type Receiver, status } from '#test/fixtures/webhook-receiver.ts'
import {
  EVENT,
  openWebhookScenario,
  type TestAccount,
  type TestWebhook,
  type WebhookScenario,
} from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
/** A next attempt that comes when the test says so. */
const LATER = { 'retry-after': '3600' }
const ONCE_AWAY: Answering = (response, request, n) => status(n === 1 ? 503 : 200, LATER)(response, request, n)

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape are looked into
type Body = any

describe('webhooks by state', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let next = 0
  before('roles and receivers', async () => {
    scenario = await openWebhookScenario(platform, { receivers: 31, config: { webhookLimitMs: HOUR_MS } })
  })
  after('end of the roles', () => scenario.close())

  async function fresh(): Promise<{ account: TestAccount; receiver: Receiver }> {
    const receiver = scenario.receivers[next++]
    if (!receiver) throw new Error('there are fewer receivers')
    return { account: await scenario.account(), receiver }
  }
  /** A destination of an account of its own that answers so, and an event that goes to it. */
  async function tried(answering: Answering) {
    const { account, receiver } = await fresh()
    receiver.answerWith(answering)
    const webhook = await scenario.webhook(account, receiver)
    return { account, receiver, webhook, eventId: await scenario.event(account) }
  }
  const deliveriesOf = async (account: TestAccount): Promise<Body[]> =>
    (await scenario.ask(account, 'GET', '/v1/account/webhooks/deliveries?limit=100')).body.deliveries
  const detailOf = async (account: TestAccount, id: string): Promise<Body> =>
    (await scenario.ask(account, 'GET', `/v1/account/webhooks/deliveries/${id}`)).body
  const until = (account: TestAccount, holds: (delivery: Body) => boolean): Promise<Body> =>
    eventually(async () => (await deliveriesOf(account)).find(holds), 'the delivery')
  const waitOf = async ({ id }: Body): Promise<number> => {
    const [row] = await scenario.database.rows<{ ms: number }>(
      `SELECT round(1000 * extract(epoch FROM d.next_attempt_at - a.completed_at))::int AS ms
      FROM webhook_deliveries d JOIN webhook_attempts a ON a.delivery_id = d.id AND a.attempt_number = d.attempt_count
      WHERE d.id = $1`,
      [id],
    )
    return row?.ms ?? expect.fail('no attempt')
  }
  const change = (account: TestAccount, { id }: TestWebhook, body: object) =>
    scenario.ask(account, 'PATCH', `/v1/account/webhooks/${id}`, body)

  it('an event goes signed to every active destination, and the API shows all of it', async () => {
    const { account } = await fresh()
    const [first, second, paused] = [(await fresh()).receiver, (await fresh()).receiver, (await fresh()).receiver]
    const [one, other] = [await scenario.webhook(account, first), await scenario.webhook(account, second)]
    await scenario.webhook(account, paused, { is_active: false })
    first.answerWith(response => void response.writeHead(200).end('thank\u0007 you'))
    const firedAt = Math.floor(Date.now() / 1000)
    const eventId = await scenario.event(account)
    const deliveries = await eventually(async () => {
      const own = (await deliveriesOf(account)).filter(one => one.event_id === eventId)
      return own.length > 0 && own.every(one => one.status !== 'pending') ? own : undefined
    }, 'the deliveries to be settled')
    expect(deliveries.map((each: Body) => each.endpoint_id)).to.have.members([one.id, other.id])
    for (const { id, secret, receiver: at } of [one, other]) {
      expect(at.received).to.have.length(1)
      const { method, path, headers, body } = at.received[0] as (typeof at.received)[number]
      const delivery = deliveries.find((each: Body) => each.endpoint_id === id)
      expect([method, path, headers['content-type']]).to.deep.equal(['POST', '/hook', 'application/json'])
      expect(headers['x-svc-event-type']).to.equal('alert.triggered')
      expect(Number(headers['x-svc-timestamp'])).to.be.within(firedAt, Date.now() / 1000)
      const expected = createHmac('sha256', secret).update(`${headers['x-svc-timestamp']}.${body}`).digest('hex')
      expect(headers['x-svc-signature']).to.equal(expected)
      const verified = { event: JSON.parse(body), deliveryId: delivery.id, isTest: false }
      expect(await verifyWebhook({ headers, body }, secret)).to.deep.equal(verified)
      const event = alertTriggeredBody.parse(JSON.parse(body))
      expect(event).to.deep.include({ id: eventId, type: 'alert.triggered', created_at: EVENT.created_at })
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
      const shown = await detailOf(account, delivery.id.toUpperCase())
      expect(shown).to.deep.include({ ...delivery, payload: event })
      expect(shown).to.include({ status: 'succeeded', attempt_count: 1, last_http_status: 200, error: null })
      expect(shown.id).to.match(UUID_V7)
      expect(shown.attempts).to.have.length(1)
      const attempt = { attempt_number: 1, status: 'succeeded', http_status: 200, error: null }
      expect(shown.attempts[0]).to.include(attempt)
    }
    const thanked = deliveries.find((each: Body) => each.endpoint_id === one.id)
    expect((await detailOf(account, thanked.id)).attempts[0].response_body_excerpt).to.equal('thank you')
    expect(paused.connections()).to.equal(0)
    const { body } = await scenario.ask(account, 'GET', '/v1/account/webhooks')
    const record = body.webhooks.find((each: Body) => each.id === one.id)
    expect(record.last_success_at).to.be.a('string')
    expect(record).to.include({ last_failure_at: null, last_failure_message: null, platform: 'custom' })
  })

  it('an event of an account that is not on quant any more goes to none of its destinations', async () => {
    const [former, current] = [await fresh(), await fresh()]
    for (const { account, receiver } of [former, current]) await scenario.webhook(account, receiver)
    await scenario.database.rows(`UPDATE accounts SET tier = 'pro' WHERE id = $1`, [former.account.id])
    // Deliveries of both are made in one transaction.
    await scenario.events([former.account, current.account])
    await until(current.account, one => one.status === 'succeeded')
    await scenario.database.rows(`UPDATE accounts SET tier = 'quant' WHERE id = $1`, [former.account.id])
    expect(await deliveriesOf(former.account)).to.deep.equal([])
  })

  describe('of a webhook destination', () => {
    it('created -> paused: created with is_active false; events make no delivery', async () => {
      const { account, receiver } = await fresh()
      const webhook = await scenario.webhook(account, receiver, { is_active: false })
      await change(account, await scenario.webhook(account, receiver, { path: '/other' }), { label: 'beside it' })
      const eventId = await scenario.event(account)
      const delivery = await until(account, one => one.event_id === eventId && one.status === 'succeeded')
      expect(delivery.endpoint_id).not.to.equal(webhook.id)
      expect(await deliveriesOf(account)).to.have.length(1)
      expect(receiver.received.map(({ path }) => path)).to.deep.equal(['/other'])
    })

    it('active -> paused -> active: deliveries stop, what is pending waits without a time, and is then delivered with its id', async () => {
      const { account, receiver, webhook } = await tried(status(503, LATER))
      const { id } = await until(account, one => one.attempt_count === 1 && one.last_http_status === 503)
      expect((await change(account, webhook, { is_active: false })).body.is_active).to.equal(false)
      await scenario.hurry(webhook.id)
      const waiting = await until(account, one => one.next_attempt_at === null)
      expect(waiting).to.include({ status: 'pending', attempt_count: 1 })
      expect(receiver.received).to.have.length(1)
      receiver.answerWith(status(200))
      expect((await change(account, webhook, { is_active: true })).body.is_active).to.equal(true)
      await until(account, one => one.status === 'succeeded')
      expect(receiver.received.map(({ headers }) => headers['x-svc-delivery-id'])).to.deep.equal([id, id])
    })

    for (const isActive of [true, false])
      it(`${isActive ? 'active' : 'paused'} -> removed: deleted; pending deliveries are cancelled, past ones stay`, async () => {
        const { account, receiver, webhook } = await tried(status(503, LATER))
        await until(account, one => one.last_http_status === 503)
        if (!isActive) await change(account, webhook, { is_active: false })
        const removed = await scenario.ask(account, 'DELETE', `/v1/account/webhooks/${webhook.id}`)
        expect([removed.status, removed.body]).to.deep.equal([200, { ok: true }])
        const [delivery] = await deliveriesOf(account)
        expect(delivery).to.include({ status: 'failed', next_attempt_at: null, endpoint_id: webhook.id })
        expect(delivery.error).to.match(/^Cancelled/)
        expect(delivery.completed_at).to.be.a('string')
        await scenario.hurry(webhook.id)
        await eventually(() => noJobOf(webhook.id), 'its last job to end')
        expect(receiver.received).to.have.length(1)
        expect((await scenario.ask(account, 'GET', '/v1/account/webhooks')).body).to.deep.equal({ webhooks: [] })
        expect((await change(account, webhook, { label: 'x' })).body.code).to.equal('WEBHOOK_NOT_FOUND')
      })
  })

  const noJobOf = async (webhookId: string): Promise<boolean> => {
    const jobs = await scenario.database.rows('SELECT 1 FROM graphile_worker.jobs WHERE key = $1', [
      `webhook:${webhookId}`,
    ])
    return jobs.length === 0
  }

  describe('of a delivery job', () => {
    it('pending -> failed: the seventh failure, after waits as long as the destination asked for, and six hours with at most a fifth of jitter; a redelivery has seven again', async () => {
      const { account, receiver, webhook } = await tried(status(500, LATER))
      const waits: number[] = []
      for (let attempt = 1; attempt <= 6; attempt++) {
        const { id } = await until(account, one => one.attempt_count === attempt)
        const hasEnded = async () => (await detailOf(account, id)).attempts.at(-1).status === 'failed'
        await eventually(hasEnded, 'the attempt to end')
        waits.push(await waitOf(await detailOf(account, id)))
        await scenario.hurry(webhook.id)
      }
      expect(waits.slice(0, 4)).to.deep.equal(Array(4).fill(HOUR_MS))
      expect(waits[4]).to.be.within(HOUR_MS, 1.2 * HOUR_MS)
      expect(waits[5]).to.be.within(0.8 * 6 * HOUR_MS, 1.2 * 6 * HOUR_MS)
      const failed = await until(account, one => one.status === 'failed')
      expect(failed).to.include({ attempt_count: 7, last_http_status: 500, next_attempt_at: null })
      expect(receiver.received).to.have.length(7)
      expect(new Set(receiver.received.map(({ headers }) => headers['x-svc-delivery-id']))).to.deep.equal(
        new Set([failed.id]),
      )
      const { attempts } = await detailOf(account, failed.id)
      expect(attempts.map((one: Body) => one.attempt_number)).to.deep.equal([1, 2, 3, 4, 5, 6, 7])
      const [record] = (await scenario.ask(account, 'GET', '/v1/account/webhooks')).body.webhooks
      expect(record).to.include({ last_success_at: null, last_failure_message: 'The destination answered 500.' })
      await scenario.ask(account, 'POST', `/v1/account/webhooks/deliveries/${failed.id}/redeliver`)
      const hasEnded = async () => (await detailOf(account, failed.id)).attempts[7]?.status === 'failed'
      await eventually(hasEnded, 'the first attempt of the next seven')
      expect(await detailOf(account, failed.id)).to.include({ status: 'pending' })
    })

    it('pending -> pending: an attempt that ended with its process counts for none of the seven', async () => {
      const { account, webhook } = await tried(status(503, LATER))
      const { id } = await until(account, one => one.last_http_status === 503)
      const [row] = await scenario.database.rows<BegunAttempt>('SELECT * FROM webhook_deliveries WHERE id = $1', [id])
      const cutOff = { kind: 'interrupted', error: 'cut off' } as const
      for (let time = 0; time < 7; time++) await concludeAttempt(scenario.database, row as BegunAttempt, cutOff, null)
      await scenario.hurry(webhook.id)
      const attempts = async (): Promise<Body[]> => (await detailOf(account, id)).attempts
      await eventually(async () => (await attempts())[1]?.status === 'failed', 'the second attempt to end')
      expect(await detailOf(account, id)).to.include({ status: 'pending' })
    })

    it('pending -> failed: a destination at an address that may not be reached', async () => {
      const { account, receiver } = await fresh()
      // No name that is local by itself is taken when it is created, so the name became local later.
      const url = 'http://localhost:1/hook'
      const { id } = await scenario.webhook(account, receiver)
      await scenario.database.rows('UPDATE webhooks SET url = $2 WHERE id = $1', [id, url])
      await scenario.event(account)
      const delivery = await until(account, one => one.status === 'failed')
      expect(delivery).to.include({ attempt_count: 1, last_http_status: null, endpoint_url: url })
      expect(delivery.error).to.include('may not reach')
    })

    it('is shown as of one moment, however its attempt ends meanwhile', async () => {
      const { account, receiver } = await fresh()
      let answer = (): void => undefined
      receiver.answerWith((response, ...request) => {
        answer = () => {
          if (!response.writableEnded) status(500)(response, ...request)
        }
      })
      await scenario.webhook(account, receiver)
      await scenario.event(account)
      await eventually(() => receiver.received.length === 1, 'the attempt')
      const { id } = await until(account, one => one.attempt_count === 1)
      // The attempt ends between any two statements of the reader.
      const rows: Database['rows'] = async (statement, values) => {
        const found = await scenario.database.rows(statement, values)
        answer()
        await until(account, one => one.last_http_status === 500)
        return found as never
      }
      const shown = await readDelivery({ rows }, account.id, id)
      expect(shown?.last_http_status).to.equal(null)
      expect(shown?.attempts.map(attempt => attempt.status)).to.deep.equal(['pending'])
    })

    for (const [from, code] of [
      ['failed', 400],
      ['succeeded', 200],
    ] as const)
      it(`${from} -> pending -> succeeded: redelivered, with its id and a round of attempts of its own`, async () => {
        const { account, receiver, webhook } = await tried(status(code))
        const { id } = await until(account, one => one.status === from)
        await change(account, webhook, { url: `${receiver.url}/moved`, label: 'renamed' })
        receiver.answerWith(status(200))
        const asked = await scenario.ask(account, 'POST', `/v1/account/webhooks/deliveries/${id}/redeliver`)
        expect([asked.status, asked.body]).to.deep.equal([200, { delivery_id: id }])
        const again = await until(account, one => one.status === 'succeeded' && one.attempt_count === 2)
        expect(again).to.include({ id, endpoint_label: 'renamed', error: null })
        expect(receiver.received.map(({ path }) => path)).to.deep.equal(['/hook', '/moved'])
        expect(receiver.received.map(({ headers }) => headers['x-svc-delivery-id'])).to.deep.equal([id, id])
        expect(receiver.received[0]?.body).to.equal(receiver.received[1]?.body)
      })

    it('pending -> pending: redelivered while it waits for its next attempt, which comes at once', async () => {
      const { account } = await tried(ONCE_AWAY)
      const { id } = await until(account, one => one.last_http_status === 503)
      await scenario.ask(account, 'POST', `/v1/account/webhooks/deliveries/${id}/redeliver`)
      await until(account, one => one.status === 'succeeded')
    })
  })

  describe('of a signing secret', () => {
    it('rotated: shown once, and whatever is sent from then on is signed with the new one, retries included', async () => {
      const { account, receiver, webhook } = await tried(ONCE_AWAY)
      await until(account, one => one.last_http_status === 503)
      const { body } = await scenario.ask(account, 'POST', `/v1/account/webhooks/${webhook.id}/rotate-secret`)
      expect(body.secret).to.match(/^whsec_[A-Za-z0-9_-]{43}$/)
      expect(body.secret).not.to.equal(webhook.secret)
      expect(body.webhook.secret_last4).to.equal(body.secret.slice(-4))
      const shown = await scenario.ask(account, 'GET', '/v1/account/webhooks')
      for (const { secret } of [webhook, body]) expect(JSON.stringify(shown.body)).not.to.include(secret)
      await scenario.hurry(webhook.id)
      await until(account, one => one.status === 'succeeded')
      const signedBy =
        ({ headers, body: text }: (typeof receiver.received)[number]) =>
        (secret: string) =>
          verifyWebhook({ headers, body: text }, secret).then(
            () => true,
            () => false,
          )
      for (const [at, secret] of [webhook.secret, body.secret].entries()) {
        const isBy = receiver.received.map(request => signedBy(request)(secret))
        expect(await Promise.all(isBy)).to.deep.equal([at === 0, at === 1])
      }
    })
  })
})
