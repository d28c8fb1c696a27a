import { expect } from 'chai'
import { openOutbound } from '#infra/outbound/post.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { fanOut } from '#services/alerts/delivery/fan-out.ts'
import { type ServingParts, serveDestination } from '#services/alerts/delivery/serve-destination.ts'
import { openReceiver, type Receiver, silence } from '#test/fixtures/webhook-receiver.ts'
import { openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const GOOD = 20
const EVENTS = 10
/** Each holds a worker. */
const DEAD = 40
/** Longer than the test: what a dead one holds, it holds to the end. */
const NEVER_MS = 600_000

describe('destinations beside a dead one', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let dead: Receiver[]
  before('receivers that never answer, and roles', async () => {
    dead = await Promise.all(Array.from({ length: DEAD + 1 }, () => openReceiver()))
    for (const receiver of dead) receiver.answerWith(silence)
    scenario = await openWebhookScenario(platform, {
      receivers: GOOD + 1,
      beside: dead,
      config: { webhookLimitMs: NEVER_MS },
    })
  })
  after('end of the roles', async () => {
    await scenario.close()
    for (const receiver of dead) await receiver.close()
  })

  it('20 good ones get every event while a request to one that never answers is open, of which there is one', async () => {
    const accounts = await manyDestinations([dead[0] as Receiver], scenario.receivers.slice(0, GOOD))
    await fire(accounts, EVENTS)
    const good = scenario.receivers.slice(0, GOOD)
    await eventually(() => good.every(({ received }) => received.length >= EVENTS), 'all good deliveries')
    for (const { received } of good) {
      expect(new Set(received.map(({ headers }) => headers['x-svc-delivery-id'])).size).to.equal(EVENTS)
    }
    await eventually(() => dead[0]?.received.length, 'the dead one to be tried')
    expect(dead[0]?.mostAtOnce()).to.equal(1)
  })

  it('a good one is served while 40 dead ones have a request each', async () => {
    const others = dead.slice(1)
    await fire(await manyDestinations(others, []), 3)
    await eventually(() => others.every(({ received }) => received.length > 0), 'a request to each dead one')
    const last = scenario.receivers[GOOD] as Receiver
    const account = await scenario.account()
    await scenario.webhook(account, last)
    await scenario.event(account)
    await eventually(() => last.received.length === 1, 'the delivery to the good one')
    for (const receiver of others) expect(receiver.mostAtOnce()).to.equal(1)
  })

  /** Accounts of at most 20 destinations each, which lead to the given receivers; the first ones are named first. */
  async function manyDestinations(first: readonly Receiver[], rest: readonly Receiver[]): Promise<TestAccount[]> {
    const accounts: TestAccount[] = []
    let account: TestAccount | undefined
    for (const [i, receiver] of [...first, ...rest].entries()) {
      if (!account || i % 7 === 0) {
        account = await scenario.account()
        accounts.push(account)
      }
      await scenario.webhook(account, receiver)
    }
    return accounts
  }

  async function fire(accounts: readonly TestAccount[], count: number): Promise<void> {
    for (let n = 0; n < count; n++) await Promise.all(accounts.map(account => scenario.event(account)))
  }
})

describe('a destination with several deliveries', () => {
  const platform = useServers()
  const newId = openUuidSource()
  let scenario: WebhookScenario
  before('accounts without the role that delivers', async () => {
    scenario = await openWebhookScenario(platform, { roles: ['api'], receivers: 3 })
  })
  after('end of the roles', () => scenario.close())

  /** A destination to which a number of deliveries is due, and what serves it; its jobs are nobody's. */
  async function due(receiver: Receiver, count: number, limitMs: number) {
    const { database } = scenario
    const account = await scenario.account()
    const { id } = await scenario.webhook(account, receiver)
    const make = async () => fanOut(database, [await scenario.event(account)], { newId, now: Date.now() })
    for (let n = 0; n < count; n++) await make()
    const serving: ServingParts = {
      ...{ box: openSealedBox(platform.config.secretKey ?? ''), limitMs, now: Date.now, chance: () => 0.5 },
      ...{ database, observe: () => undefined },
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
    const one = await due(receiver, 4, NEVER_MS)
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
    const one = await due(receiver, 2, NEVER_MS)
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
    const one = await due(receiver, 1, NEVER_MS)
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
