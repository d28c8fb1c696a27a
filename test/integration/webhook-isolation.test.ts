import { expect } from 'chai'
import { openOutbound } from '#infra/outbound/post.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { fanOut } from '#services/alerts/delivery/fan-out.ts'
import { type ServingParts, serveDestination } from '#services/alerts/delivery/serve-destination.ts'
import { type Answering, openReceiver, type Receiver, silence } from '#test/fixtures/webhook-receiver.ts'
import { openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const GOOD = 20
const EVENTS = 10
/** More than there are workers for prompt destinations. */
const SLOW = 40
const SLOW_WORKERS = 12
/** Longer than the test: what a dead one holds, it holds to the end. */
const NEVER_MS = 600_000
/** More than makes a destination a slow one. */
const SLOW_ANSWER_MS = 2_100

const answersAfter =
  (ms: number): Answering =>
  response =>
    void setTimeout(() => response.writeHead(200).end(), ms)

describe('destinations beside a dead one', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let dead: Receiver[]
  before('receivers that never answer, and roles', async () => {
    dead = await Promise.all(Array.from({ length: SLOW + 1 }, () => openReceiver()))
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

  it('20 good ones get every event while the requests to one that never answers are open, of which there are few', async () => {
    const accounts = await manyDestinations([dead[0] as Receiver], scenario.receivers.slice(0, GOOD))
    await fire(accounts, EVENTS)
    const good = scenario.receivers.slice(0, GOOD)
    await eventually(() => good.every(({ received }) => received.length >= EVENTS), 'all good deliveries')
    for (const { received } of good) {
      expect(new Set(received.map(({ headers }) => headers['x-svc-delivery-id'])).size).to.equal(EVENTS)
    }
    await eventually(() => dead[0]?.received.length, 'the dead one to be tried')
    expect(dead[0]?.mostAtOnce()).to.be.within(1, 4)
  })

  it('a good one is served while 40 slow ones, more than all workers of a lane, hold those that serve slow ones', async () => {
    const slow = dead.slice(1)
    for (const receiver of slow) receiver.answerWith(answersAfter(SLOW_ANSWER_MS))
    const accounts = await manyDestinations(slow, [])
    await fire(accounts, 1)
    const known = () => scenario.database.rows('SELECT FROM webhook_health WHERE slow_until > now()')
    await eventually(async () => (await known()).length === SLOW, 'all of them to be known as slow')
    for (const receiver of slow) receiver.answerWith(silence)
    await fire(accounts, 3)
    const isHeld = () => slow.filter(({ received }) => received.length > 1).length >= SLOW_WORKERS
    await eventually(isHeld, 'the workers of slow ones to be held')
    const last = scenario.receivers[GOOD] as Receiver
    const account = await scenario.account()
    await scenario.webhook(account, last)
    await scenario.event(account)
    await eventually(() => last.received.length === 1, 'the delivery to the good one')
    for (const receiver of slow) expect(receiver.mostAtOnce()).to.be.at.most(4)
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

describe('a destination whose next job comes before the one that serves it has left', () => {
  const platform = useServers()

  it('is served on, which used to be put off again and again under load', async () => {
    const scenario = await openWebhookScenario(platform, { roles: ['api'] })
    const { database, receivers } = scenario
    const receiver = receivers[0] as Receiver
    const account = await scenario.account()
    const { id } = await scenario.webhook(account, receiver)
    const newId = openUuidSource()
    const fire = async () => fanOut(database, [await scenario.event(account)], { newId, now: Date.now() })
    const takeJob = async (): Promise<boolean> => {
      const job = 'DELETE FROM graphile_worker._private_jobs WHERE key = $1 AND run_at <= now() RETURNING id'
      return (await database.rows(job, [`webhook:${id}`])).length > 0
    }
    let left = 0
    const serving: ServingParts = {
      ...{ box: openSealedBox(platform.config.secretKey ?? ''), limitMs: NEVER_MS, now: Date.now, chance: () => 0.5 },
      ...{ served: new Map(), observe: () => undefined },
      outbound: openOutbound({ allow: [`127.0.0.1:${receiver.port}`], dns: [] }),
      database: {
        ...database,
        async transaction(work) {
          const result = await database.transaction(work)
          left += 1
          if (left > 10) throw new Error('it is left again and again')
          if (left === 1) await fire()
          if (await takeJob()) await serve()
          return result
        },
      },
    }
    const serve = () => serveDestination(serving, id, false, new AbortController().signal)
    await fire()
    await takeJob()
    await serve()
    expect(receiver.received).to.have.length(2)
    await scenario.close()
  })
})
