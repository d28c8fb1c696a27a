/**
 * It used to be that a reissue, or a child key that was deleted and made again, began every limit from nothing; and later that the
 * sixth reissue of a day was refused.
 */
import { expect } from 'chai'
import { loadTiers, type Tier } from '#infra/config/tiers.ts'
import { openRateLimit } from '#infra/redis/rate-limit.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { minuteKey, monthKey } from '#infra/redis/request-meter.ts'
import { openStreamLeases } from '#infra/redis/stream-leases.ts'
import { openStreamPermits } from '#infra/redis/stream-permits.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { start as startApi } from '#services/api/main.ts'
import { type Answer, openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** Of one day. */
const REISSUES = 7

describe('lineages of keys', () => {
  const platform = useServers()
  const built = loadTiers()
  let scenario: Scenario
  let redis: Redis
  /** Of the API; no month ends while it is tested. */
  const clock = Date.parse(`${new Date().toISOString().slice(0, 7)}-15`)
  const now = () => clock
  const roles: StartRole[] = [context => startApi(context, now)]

  before('the API and the feeds with their usual limits', async () => {
    scenario = await openScenario(platform, { roles: [...roles, 'feed'], config: { tiersFile: undefined } })
    redis = await platform.openRedis()
  })
  after('end of the scenario', () => scenario.close())

  const ask = (as: string, method: string, path: string, body?: unknown): Promise<Answer> =>
    scenario.ask(`/v1${path}`, { as, method, body })
  const newAccount = (tier: Tier = 'quant') => createAccountWithKey(scenario.database, { tier })
  const newChild = async (root: string, name = 'child') => {
    const { status, body, text } = await ask(root, 'POST', '/account/sub-keys', { name })
    expect(status, text).to.equal(201)
    return { key: body.key as string, id: body.key_info.id as string }
  }
  const use = async (key: string, times: number): Promise<void> => {
    for (let i = 0; i < times; i++) expect((await ask(key, 'GET', '/providers')).status).not.to.equal(429)
  }
  const usedOf = async (root: string, id: string): Promise<number> =>
    (await ask(root, 'GET', `/account/sub-keys/${id}`)).body.requests_this_month

  describe('a root key that is reissued', () => {
    const month = () => new Date(clock).toISOString().slice(0, 7)
    const prefix = () => platform.namespace
    /** Limits: how an account uses one up, and what is refused then. */
    const limits: [
      name: string,
      tier: Tier,
      useUp: (ids: { key_id: string; account_id: string }) => Promise<unknown>,
      asked: [method: string, path: string],
      code: string,
    ][] = [
      [
        'minute',
        'pro',
        // A minute that does not end.
        ({ key_id }) => redis.set(minuteKey(key_id, prefix()), built.pro.requests_per_minute - REISSUES),
        ['GET', '/account/key'],
        'RATE_LIMIT_EXCEEDED',
      ],
      [
        'month',
        'free',
        ({ key_id }) => redis.set(monthKey(key_id, month(), prefix()), built.free.requests_per_month),
        ['GET', '/providers'],
        'RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED',
      ],
      [
        'streams of bids on starter',
        'starter',
        async ({ key_id }) => {
          const permits = openStreamPermits(redis, { prefix: prefix() })
          for (let i = 0; i < built.starter.bids_stream_starts_per_day; i++) {
            const start = await permits.start(`bid:${key_id}`, built.starter.bids_stream_starts_per_day)
            if (start.kind === 'started') await start.permit.release()
          }
        },
        ['POST', '/bids'],
        'RATE_LIMIT_STREAM_QUOTA_EXCEEDED',
      ],
      [
        'feed connections',
        'quant',
        async ({ key_id }) => {
          const leases = openStreamLeases(redis, { prefix: prefix(), name: 'feed', leaseMs: 600_000 })
          for (let i = 0; i < built.quant.feed_connections; i++) await leases.take(key_id, built.quant.feed_connections)
          await leases.close()
        },
        ['GET', '/feed/prices'],
        'RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED',
      ],
      [
        'expensive requests, as exports and imports count',
        'pro',
        async ({ account_id }) => {
          const { expensive_requests_per_minute: most } = built.pro
          const limit = openRateLimit(redis, `${prefix()}account-expensive`)
          for (let i = 0; i < most; i++) await limit.charge(account_id, most)
        },
        ['GET', '/account/alerts?search=AK'],
        'RATE_LIMIT_EXCEEDED',
      ],
    ]
    for (const [name, tier, useUp, asked, code] of limits)
      it(`${REISSUES} times in a day is served, and has the limits of its first key used up: ${name}`, async () => {
        const { key, ...ids } = await newAccount(tier)
        await useUp(ids)
        let current = key
        for (let i = 0; i < REISSUES; i++) {
          const { status, body, text } = await ask(current, 'POST', '/account/key/reissue')
          expect(status, text).to.equal(200)
          current = body.key
        }
        const refused = await ask(current, ...asked)
        expect([refused.status, refused.body.code]).to.deep.equal([429, code])
      })
  })

  describe('a child key', () => {
    it('keeps its count however often it is reissued', async () => {
      const { key } = await newAccount()
      let child = await newChild(key)
      await use(child.key, 3)
      for (let i = 0; i < REISSUES; i++) {
        const { body } = await ask(key, 'POST', `/account/sub-keys/${child.id}/reissue`)
        child = { key: body.key, id: body.key_info.id }
      }
      await use(child.key, 2)
      expect(await usedOf(key, child.id)).to.equal(5)
      const other = await newChild(key, 'other')
      expect(await usedOf(key, other.id), 'each lineage by itself').to.equal(0)
    })

    it('that is made after others were revoked goes on with the highest of their counts that none has', async () => {
      const { key } = await newAccount()
      const [low, high] = [await newChild(key, 'low'), await newChild(key, 'high')]
      const kept = await newChild(key, 'kept')
      await use(low.key, 2)
      await use(high.key, 5)
      await use(kept.key, 7)
      for (const { id } of [low, high]) await ask(key, 'DELETE', `/account/sub-keys/${id}`)
      const made = [await newChild(key), await newChild(key), await newChild(key)]
      const counts = await Promise.all(made.map(({ id }) => usedOf(key, id)))
      expect(counts).to.deep.equal([5, 2, 0])
      await use(made[1]?.key as string, 4)
      for (const { id } of made) await ask(key, 'DELETE', `/account/sub-keys/${id}`)
      expect(await usedOf(key, (await newChild(key)).id), 'a count goes on from child to child').to.equal(6)
    })

    it('goes on with the counts of children that a reissue of their root revoked', async () => {
      const { key } = await newAccount()
      const child = await newChild(key)
      await use(child.key, 3)
      const root = (await ask(key, 'POST', '/account/key/reissue')).body.key
      const next = await newChild(root)
      expect(await usedOf(root, next.id)).to.equal(3)
    })

    it('of an account of another one begins with none', async () => {
      const [mine, theirs] = [await newAccount(), await newAccount()]
      const child = await newChild(mine.key)
      await use(child.key, 3)
      await ask(mine.key, 'DELETE', `/account/sub-keys/${child.id}`)
      expect(await usedOf(theirs.key, (await newChild(theirs.key)).id)).to.equal(0)
    })
  })
})
