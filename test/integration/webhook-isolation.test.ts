/**
 * No destination delays another: dead, slow and busy ones beside good ones.
 */
import { expect } from 'chai'
import { type Answering, openReceiver, type Receiver, silence } from '#test/fixtures/webhook-receiver.ts'
import { openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const GOOD = 20
const EVENTS = 10
/** More than there are workers for prompt destinations. */
const SLOW = 40

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
    })
  })
  after('end of the roles', async () => {
    await scenario.close()
    for (const receiver of dead) await receiver.close()
  })

  it('20 good ones get every event at once while one is dead, and the dead one has few requests at a time', async () => {
    const accounts = await manyDestinations([dead[0] as Receiver], scenario.receivers.slice(0, GOOD))
    const startedAt = performance.now()
    await fire(accounts, EVENTS)
    const good = scenario.receivers.slice(0, GOOD)
    await eventually(() => good.every(({ received }) => received.length >= EVENTS), 'all good deliveries')
    const tookMs = performance.now() - startedAt
    console.log(`      ${GOOD} x ${EVENTS} good deliveries beside a dead destination took ${Math.round(tookMs)} ms`)
    for (const { received } of good) {
      expect(new Set(received.map(({ headers }) => headers['x-svc-delivery-id'])).size).to.equal(EVENTS)
    }
    expect(dead[0]?.mostAtOnce()).to.be.within(1, 4)
  })

  it('a good one is served while 40 dead ones, more than all workers of a lane, hold their requests', async () => {
    const silent = dead.slice(1)
    const accounts = await manyDestinations(silent, [])
    await fire(accounts, 3)
    await eventually(() => silent.every(({ received }) => received.length > 0), 'every dead one to be tried')
    const last = scenario.receivers[GOOD] as Receiver
    const account = await scenario.account()
    await scenario.webhook(account, last)
    const startedAt = performance.now()
    await scenario.event(account)
    await eventually(() => last.received.length === 1, 'the delivery to the good one')
    console.log(`      beside ${SLOW} dead ones a good delivery took ${Math.round(performance.now() - startedAt)} ms`)
    for (const receiver of silent) expect(receiver.mostAtOnce()).to.be.at.most(4)
  })

  it('one that answers after half a second is served four at a time, and no more', async () => {
    const late: Answering = response => void setTimeout(() => response.writeHead(200).end(), 500)
    const receiver = scenario.receivers[GOOD] as Receiver
    receiver.answerWith(late)
    const before = receiver.received.length
    const account = await scenario.account()
    await scenario.webhook(account, receiver)
    await fire([account], 16)
    await eventually(() => receiver.received.length === before + 16, 'all of its deliveries')
    expect(receiver.mostAtOnce()).to.equal(4)
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
