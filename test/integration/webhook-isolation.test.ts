import { expect } from 'chai'
import { openOutbound } from '#infra/outbound/post.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { fanOut } from '#services/alerts/delivery/fan-out.ts'
import { type ServingParts, serveDestination } from '#services/alerts/delivery/serve-destination.ts'
import { openReceiver, type Receiver, silence } from '#test/fixtures/webhook-receiver.ts'
import { openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** Each holds a worker. */
const DEAD = 40
/** Of one account. */
const DESTINATIONS = 20
const EVENTS = 3
/** Longer than the test: what a dead one holds, it holds to the end. */
const NEVER_MS = 600_000

describe('destinations beside a dead one', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let dead: Receiver[]
  before('receivers that never answer, and roles', async () => {
    dead = await Promise.all(Array.from({ length: DEAD }, () => openReceiver()))
    for (const receiver of dead) receiver.answerWith(silence)
    scenario = await openWebhookScenario(platform, {
      beside: dead,
      config: { webhookLimitMs: NEVER_MS },
    })
  })
  after('end of the roles', async () => {
    await scenario.close()
    for (const receiver of dead) await receiver.close()
  })

  it('a good one is served while 40 dead ones have a request each', async () => {
    const [good] = scenario.receivers as [Receiver]
    const accounts: TestAccount[] = []
    for (const [i, receiver] of dead.entries()) {
      if (i % DESTINATIONS === 0) accounts.push(await scenario.account())
      await scenario.webhook(accounts.at(-1) as TestAccount, receiver)
    }
    for (let n = 0; n < EVENTS; n++) await scenario.events(accounts)
    await eventually(() => dead.every(({ received }) => received.length > 0), 'a request to each dead one')
    const account = await scenario.account()
    await scenario.webhook(account, good)
    for (let n = 0; n < EVENTS; n++) await scenario.event(account)
    await eventually(() => good.received.length === EVENTS, 'the deliveries to the good one')
    for (const receiver of dead) expect(receiver.mostAtOnce()).to.equal(1)
  })
})

describe('a destination with several deliveries', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  before('accounts without the role that delivers', async () => {
    scenario = await openWebhookScenario(platform, { roles: ['api'], receivers: 3 })
  })
  after('end of the roles', () => scenario.close())

  /** A destination to which a number of deliveries is due, and what serves it; its jobs are nobody's. */
  async function due(receiver: Receiver, count: number) {
    const { database } = scenario
    const account = await scenario.account()
    const { id } = await scenario.webhook(account, receiver)
    const make = async () => fanOut(database, [await scenario.event(account)])
    for (let n = 0; n < count; n++) await make()
    const serving: ServingParts = {
      database,
      box: openSealedBox(platform.config.secretKey ?? ''),
      limitMs: NEVER_MS,
      outbound: openOutbound({ allow: [`127.0.0.1:${receiver.port}`], dns: [] }),
    }
    const deliveries = () =>
      database.rows<{ id: string; failures: number; at: number }>(
        `SELECT id, failures, floor(1000 * extract(epoch FROM next_attempt_at))::float8 AS at FROM webhook_deliveries
          WHERE endpoint_id = $1 ORDER BY next_attempt_at, id`,
        [id],
      )
    return {
      make,
      deliveries,
      serve: () => serveDestination(serving, id, new AbortController().signal),
      async jobAt(): Promise<number | undefined> {
        const job = `SELECT floor(1000 * extract(epoch FROM run_at))::float8 AS at FROM graphile_worker.jobs WHERE key = $1`
        return (await database.rows<{ at: number }>(job, [`webhook:${id}`]))[0]?.at
      },
      forgetJob: () => database.rows('DELETE FROM graphile_worker._private_jobs WHERE key = $1', [`webhook:${id}`]),
    }
  }
  const receivedIds = ({ received }: Receiver) => received.map(({ headers }) => headers['x-svc-delivery-id'])

  it('gets them one after the other; after a failure the others wait for the next attempt, and come before it', async () => {
    const receiver = scenario.receivers[0] as Receiver
    receiver.answerWith((response, _request, n) => void response.writeHead(n === 2 ? 503 : 200).end())
    const one = await due(receiver, 4)
    const [first, second, third, fourth] = (await one.deliveries()).map(({ id }) => id)
    await one.serve()
    expect(receivedIds(receiver)).to.deep.equal([first, second])
    const waiting = (await one.deliveries()).filter(({ at }) => at !== null)
    expect(waiting.map(({ id, failures }) => [id, failures])).to.deep.equal([
      [third, 0],
      [fourth, 0],
      [second, 1],
    ])
    const [before, , retried] = waiting.map(({ at }) => at)
    expect((retried ?? 0) - (before ?? 0)).to.equal(1)
    // Another waiting job keeps its time, which was earlier.
    await one.forgetJob()
    await one.serve()
    expect(receivedIds(receiver)).to.have.length(2)
    expect(await one.jobAt()).to.equal(before)
    await scenario.database.rows(
      `UPDATE webhook_deliveries SET next_attempt_at = next_attempt_at - interval '1 hour' WHERE status = 'pending'`,
    )
    await one.serve()
    expect(receivedIds(receiver)).to.deep.equal([first, second, third, fourth, second])
  })

  it('gets none that has not failed later than in ten minutes, however long the failed one waits', async () => {
    const receiver = scenario.receivers[1] as Receiver
    receiver.answerWith(response => void response.writeHead(503, { 'retry-after': '3600' }).end())
    const one = await due(receiver, 2)
    await one.serve()
    const [other, failed] = (await one.deliveries()).map(({ at }) => at - Date.now())
    expect(other).to.be.within(0, 600_000)
    expect(failed).to.be.above(600_000)
  })

  it('gets no second request while one is open, and is served again when the lease of that one ends', async () => {
    const receiver = scenario.receivers[2] as Receiver
    let answer = (): void => undefined
    receiver.answerWith(response => {
      answer = () => void response.writeHead(200).end()
    })
    const one = await due(receiver, 1)
    const serving = one.serve()
    await eventually(() => receiver.received.length === 1, 'the first request')
    await one.make()
    await one.forgetJob()
    await one.serve()
    expect(receiver.received).to.have.length(1)
    const [, leased] = (await one.deliveries()).map(({ at }) => at)
    expect(await one.jobAt()).to.equal(leased)
    answer()
    await eventually(() => receiver.received.length === 2, 'the second request')
    answer()
    await serving
    expect(await one.deliveries()).to.deep.equal((await one.deliveries()).map(each => ({ ...each, at: null })))
  })
})
