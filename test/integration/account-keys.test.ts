import { expect } from 'chai'
import { loadTiers, type Tier } from '#infra/config/tiers.ts'
import type { RoleContext } from '#infra/runtime/role.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { start as startApi } from '#services/api/main.ts'
import { eventually } from '#test/harness/eventually.ts'
import { type Answer, openScenario, type Scenario } from '#test/harness/scenario.ts'
import { openSse } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** The API's clock stands still, so that no month ends while its requests are counted. */
const NOW = Date.now()

describe('keys', () => {
  const platform = useServers()
  const tiers = loadTiers()
  let scenario: Scenario
  before('the API and the feed', async () => {
    const roles = [(context: RoleContext) => startApi(context, () => NOW), 'feed' as const]
    scenario = await openScenario(platform, { roles, config: { tiersFile: undefined } })
  })
  after('end of both', () => scenario.close())

  const ask = (as: string, method: string, path: string, body?: unknown): Promise<Answer> =>
    scenario.ask(`/v1${path}`, { as, method, body })
  const newAccount = (tier: Tier = 'quant') => createAccountWithKey(scenario.database, { tier })
  const newChild = async (root: string, body: object = { name: 'child' }) => {
    const { status, body: made, text } = await ask(root, 'POST', '/account/sub-keys', body)
    expect(status, text).to.equal(201)
    return { key: made.key as string, id: made.key_info.id as string, info: made.key_info }
  }
  const codeOf = async (key: string, path = '/account/key'): Promise<string> => {
    const { status, body } = await ask(key, 'GET', path)
    return status === 200 ? 'ok' : body.code
  }

  describe('the state table', () => {
    it('active, root reissue -> revoked: its child keys too, and a new active root key is returned once', async () => {
      const { key, key_id, account_id } = await newAccount()
      const children = [await newChild(key), await newChild(key)]
      const { status, body } = await ask(key, 'POST', '/account/key/reissue')
      expect(status).to.equal(200)
      expect(body.key).to.match(/^sk_live_root_[\w-]{43}$/)
      expect(body.id).not.to.equal(key_id)
      for (const old of [key, ...children.map(child => child.key)]) {
        expect(await codeOf(old)).to.equal('AUTH_API_KEY_REVOKED')
      }
      expect(await codeOf(body.key)).to.equal('ok')
      const again = await ask(body.key, 'GET', '/account/key')
      expect(again.text).not.to.include(body.key)
      expect((await ask(body.key, 'GET', '/account/sub-keys')).body.keys).to.deep.equal([])
      const active = 'SELECT id FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL'
      expect(await scenario.database.rows(active, [account_id])).to.deep.equal([{ id: body.id }])
    })

    it('active child, child delete -> revoked: stops authenticating immediately', async () => {
      const { key, key_id } = await newAccount()
      const child = await newChild(key)
      expect(await codeOf(child.key)).to.equal('ok')
      const { status, body } = await ask(key, 'DELETE', `/account/sub-keys/${child.id}`)
      expect([status, body.ok, body.key_id]).to.deep.equal([200, true, child.id])
      expect(await codeOf(child.key)).to.equal('AUTH_API_KEY_REVOKED')
      expect(await codeOf(key)).to.equal('ok')
      for (const id of [child.id, key_id]) {
        for (const method of ['GET', 'DELETE'])
          expect((await ask(key, method, `/account/sub-keys/${id}`)).body.code).to.equal('KEY_NOT_FOUND')
      }
    })

    it('active child, child reissue -> revoked: a new child key with name and overrides is returned once', async () => {
      const { key } = await newAccount()
      const limits = { quota_requests_per_month_override: 500, rate_requests_per_minute_override: 7 }
      const child = await newChild(key, { name: 'dashboard', ...limits })
      expect(await codeOf(child.key)).to.equal('ok')
      const { status, body } = await ask(key, 'POST', `/account/sub-keys/${child.id}/reissue`)
      expect(status).to.equal(200)
      expect(body.key_info).to.include({ name: 'dashboard', ...limits, is_root_key: false, is_active: true })
      expect(body.key_info.id).not.to.equal(child.id)
      expect([await codeOf(child.key), await codeOf(body.key)]).to.deep.equal(['AUTH_API_KEY_REVOKED', 'ok'])
      const shown = await ask(key, 'GET', `/account/sub-keys/${body.key_info.id}`)
      expect(shown.text).not.to.include(body.key)
    })

    it('active, expiry -> inactive: neither it nor its child keys authenticate, and it is listed no more', async () => {
      const { key, account_id } = await newAccount()
      const child = await newChild(key)
      const other = await newChild(key)
      expect(await codeOf(child.key)).to.equal('ok')
      await scenario.database.rows('UPDATE api_keys SET expires_at = $2 WHERE id = $1', [child.id, new Date(NOW)])
      await eventually(async () => (await codeOf(child.key)) === 'AUTH_INVALID_API_KEY', 'the expiry')
      const { keys } = (await ask(key, 'GET', '/account/sub-keys')).body
      expect(keys.map((row: Answer['body']) => row.key.id)).to.deep.equal([other.id])
      expect((await ask(key, 'GET', `/account/sub-keys/${child.id}`)).status).to.equal(404)
      await scenario.database.rows(`UPDATE api_keys SET expires_at = now() WHERE account_id = $1 AND kind = 'root'`, [
        account_id,
      ])
      await eventually(async () => (await codeOf(other.key)) === 'AUTH_INVALID_API_KEY', 'the expiry of the root')
      await eventually(async () => (await codeOf(key)) === 'AUTH_INVALID_API_KEY', 'its own expiry')
    })
  })

  describe('child keys', () => {
    it('are 25 at most, however many are asked for at once, and a deleted one makes room', async () => {
      const { key } = await newAccount()
      for (let i = 0; i < 18; i++) await newChild(key)
      const asked = Array.from({ length: 14 }, (_, i) => ask(key, 'POST', '/account/sub-keys', { name: `child ${i}` }))
      const answers = await Promise.all(asked)
      const made = answers.filter(({ status }) => status === 201)
      expect(made).to.have.length(7)
      const refused = answers.filter(({ status }) => status !== 201).map(({ status, body }) => [status, body.code])
      expect(refused).to.deep.equal(Array(7).fill([409, 'CHILD_KEY_LIMIT_REACHED']))
      const page = async (query: string) => (await ask(key, 'GET', `/account/sub-keys${query}`)).body
      const { pagination, keys } = await page('?limit=10&offset=20')
      expect(pagination).to.deep.equal({ limit: 10, offset: 20, total: 25, has_next: false, has_prev: true })
      expect(keys).to.have.length(5)
      for (const [query, limit] of [
        ['?limit=0', 1],
        ['?limit=999', 100],
        ['', 25],
      ] as const)
        expect((await page(query)).pagination.limit).to.equal(limit)
      await ask(key, 'DELETE', `/account/sub-keys/${made[0]?.body.key_info.id}`)
      await newChild(key)
      expect((await ask(key, 'POST', '/account/sub-keys', { name: 'one too many' })).status).to.equal(409)
    })

    it('inherit the limits of their tier, or lower ones that are enforced, reported and taken back', async () => {
      const { key } = await newAccount()
      const { requests_per_minute: perMinute, requests_per_month: perMonth } = tiers.quant
      const plain = await newChild(key)
      const inherited = { effective_quota_requests_per_month: perMonth, effective_rate_requests_per_minute: perMinute }
      expect(plain.info).to.include({ quota_requests_per_month_override: null, ...inherited })
      const low = await newChild(key, { name: 'low', rate_requests_per_minute_override: 3 })
      const spent = await Promise.all(Array.from({ length: 6 }, () => ask(low.key, 'GET', '/fx')))
      expect(spent.filter(({ status }) => status !== 429)).to.have.length(3)
      const row = await ask(key, 'GET', `/account/sub-keys/${low.id}`)
      expect(row.body.requests_this_month).to.equal(3)
      const change = (body: object) => ask(key, 'PATCH', `/account/sub-keys/${low.id}`, body)
      const raised = await change({ rate_requests_per_minute_override: null, quota_requests_per_month_override: 5 })
      const limits = { rate_requests_per_minute_override: null, ...inherited, effective_quota_requests_per_month: 5 }
      expect(raised.body.key).to.include({ name: 'low', ...limits })
      const after = await Promise.all(Array.from({ length: 4 }, () => ask(low.key, 'GET', '/fx')))
      const codes = after.map(({ body }) => body.code).filter(Boolean)
      expect(codes).to.include('RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED')
      const renamed = { name: 'renamed', quota_requests_per_month_override: 5 }
      expect((await change({ name: 'renamed' })).body.key).to.include(renamed)
    })

    it('are refused limits above the tier’s and below one, and changes that say nothing', async () => {
      const { key } = await newAccount()
      const child = await newChild(key)
      const { requests_per_minute: perMinute, requests_per_month: perMonth } = tiers.quant
      const cases: [limit: object, type: string][] = [
        [{ rate_requests_per_minute_override: perMinute + 1 }, 'less_than_equal'],
        [{ quota_requests_per_month_override: perMonth + 1 }, 'less_than_equal'],
        [{ quota_requests_per_month_override: 0 }, 'greater_than_equal'],
        [{ quota_requests_per_month_override: 1.5 }, 'int_parsing'],
      ]
      for (const [limit, type] of cases) {
        for (const [method, path] of [['POST'], ['PATCH', `/${child.id}`]] as const) {
          const answer = await ask(key, method, `/account/sub-keys${path ?? ''}`, { name: 'x', ...limit })
          expect([answer.status, answer.body.detail[0].type], JSON.stringify(limit)).to.deep.equal([422, type])
        }
      }
      for (const body of [{}, { name: null }]) {
        expect((await ask(key, 'PATCH', `/account/sub-keys/${child.id}`, body)).status).to.equal(422)
      }
    })

    it('are confined to scopes, which are shown, kept by a reissue, changed, and taken back', async () => {
      const { key } = await newAccount()
      const child = await newChild(key, { name: 'bot', scopes: ['feeds', 'market:read', 'feeds'] })
      expect(child.info.scopes).to.deep.equal(['market:read', 'feeds'])
      const shown = (await ask(child.key, 'GET', '/account/key')).body.key
      expect(shown).to.deep.include({ id: child.id, is_root_key: false, scopes: ['market:read', 'feeds'] })
      expect(await codeOf(child.key, '/portfolio')).to.equal('FORBIDDEN_SCOPE')
      expect(await codeOf(child.key, '/account')).to.equal('FORBIDDEN_SCOPE')
      const reissued = (await ask(key, 'POST', `/account/sub-keys/${child.id}/reissue`)).body
      expect(reissued.key_info.scopes).to.deep.equal(['market:read', 'feeds'])
      const change = (scopes: unknown) => ask(key, 'PATCH', `/account/sub-keys/${reissued.key_info.id}`, { scopes })
      expect((await change(['portfolio'])).body.key.scopes).to.deep.equal(['portfolio'])
      expect(await codeOf(reissued.key, '/portfolio')).to.equal('ok')
      expect(await codeOf(reissued.key, '/fx')).to.equal('FORBIDDEN_SCOPE')
      expect((await change(null)).body.key.scopes).to.equal(null)
      expect(await codeOf(reissued.key, '/fx')).not.to.equal('FORBIDDEN_SCOPE')
    })

    it('lose their open feeds with the scope of them', async () => {
      const { key } = await newAccount()
      const child = await newChild(key, { name: 'bot', scopes: ['feeds'] })
      const feed = await openSse(`${scenario.roles.baseUrl}/v1/feed/prices`, { key: child.key })
      expect(feed.status).to.equal(200)
      await ask(key, 'PATCH', `/account/sub-keys/${child.id}`, { scopes: ['alerts'] })
      await eventually(() => feed.hasEnded(), 'the end of the feed')
      const again = await openSse(`${scenario.roles.baseUrl}/v1/feed/prices`, { key: child.key })
      expect(await again.body()).to.include({ code: 'FORBIDDEN_SCOPE' })
    })
  })

  it('of two reissues at once one is served, and its key is the account’s', async () => {
    const { key } = await newAccount('free')
    const answers = await Promise.all([1, 2, 3, 4].map(() => ask(key, 'POST', '/account/key/reissue')))
    const served = answers.filter(({ status }) => status === 200)
    expect(served).to.have.length(1)
    for (const { status, body } of answers) if (status !== 200) expect(body.code).to.equal('AUTH_API_KEY_REVOKED')
    expect(await codeOf(served[0]?.body.key)).to.equal('ok')
  })

  it('answer 503 with all of an account while Postgres does not answer in time, and go on when it does', async () => {
    // Only portfolios used to; an account, its alerts and webhooks answered 500.
    const { key } = await newAccount()
    const paths = ['/account', '/account/alerts', '/account/webhooks', '/portfolio', '/account/sub-keys'] as const
    const codes = () => Promise.all(paths.map(path => codeOf(key, path)))
    expect(await codes()).to.deep.equal(paths.map(() => 'ok'))
    await scenario.database.transaction(async query => {
      await query('SET LOCAL idle_in_transaction_session_timeout = 0')
      await query('LOCK TABLE platform_links, alerts, webhooks, portfolios IN ACCESS EXCLUSIVE MODE')
      expect(await codes()).to.deep.equal([...paths.slice(0, 4).map(() => 'SERVICE_UNAVAILABLE'), 'ok'])
    })
    expect(await codes()).to.deep.equal(paths.map(() => 'ok'))
  })

  it('are issued only to accounts with a verified address', async () => {
    const { key } = await createAccountWithKey(scenario.database, { tier: 'quant', email: null })
    for (const [path, body] of [['/account/key/reissue'], ['/account/sub-keys', { name: 'x' }]] as const) {
      expect((await ask(key, 'POST', path, body)).body.code).to.equal('EMAIL_NOT_VERIFIED')
    }
    expect(await codeOf(key)).to.equal('ok')
  })

  it('report when they were last used, a moment that never moves back', async () => {
    const { key } = await newAccount()
    const [child, other] = [await newChild(key), await newChild(key)]
    const lastUsed = async ({ id }: { id: string }) =>
      (await ask(key, 'GET', `/account/sub-keys/${id}`)).body.key.last_used_at
    expect(await lastUsed(child)).to.equal(null)
    expect(await codeOf(child.key)).to.equal('ok')
    const shown = await eventually(async () => (await lastUsed(child)) ?? undefined, 'the moment of use')
    expect(Date.parse(shown)).to.equal(NOW)
    await scenario.database.rows(`UPDATE api_keys SET last_used_at = now() + interval '1 hour' WHERE id = $1`, [
      child.id,
    ])
    const ahead = await lastUsed(child)
    for (const one of [child, other]) expect(await codeOf(one.key)).to.equal('ok')
    await eventually(async () => (await lastUsed(other)) ?? undefined, 'the next write')
    expect(await lastUsed(child)).to.equal(ahead)
  })
})
