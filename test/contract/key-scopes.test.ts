/**
 * The operation list with scopes: every operation x tier x scope of a child key, feeds included.
 *
 * What each operation needs is said here by the specification's table of operations and a table of its groups, so that a group which is
 * added later has to be decided on. A key with a scope may do what its tier and that scope open, a key without scopes
 * what its tier opens.
 */
import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { TIERS, type Tier } from '#infra/config/tiers.ts'
import { openApiDocument } from '#infra/http/openapi.ts'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { operationsDescribed } from '#test/fixtures/api-routes.ts'
import { openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const SCOPES = ['market:read', 'feeds', 'portfolio', 'alerts', 'webhooks'] as const
/** Group of the specification's table → scope. */
const SCOPE_OF: Record<string, string> = {
  prices: 'market:read',
  bids: 'market:read',
  sales: 'market:read',
  catalog: 'market:read',
  analytics: 'market:read',
  feeds: 'feeds',
  portfolio: 'portfolio',
  inventory: 'portfolio',
  alerts: 'alerts',
  webhooks: 'webhooks',
}
/** Operations beside the table's, and the one that shows a key itself. */
const BESIDE: Record<string, string> = {
  'GET /v1/account/key': 'any',
  'GET /v1/account': 'none',
  'GET /v1/market/movers': 'market:read',
  'GET /v1/portfolio/{id}/performance': 'portfolio',
  'POST /v1/account/webhooks/{id}/test': 'webhooks',
  'POST /v1/account/webhooks/deliveries/{id}/redeliver': 'webhooks',
  'GET /v1/feed/replay/prices': 'feeds',
}
const IS_MANAGED = new Set(['management', 'recent-session'])
const NEVER = '00000000-0000-4000-8000-000000000000'

const TABLE = new Map<string, string | undefined>(
  readFileSync(new URL('../fixtures/operations.csv', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .slice(1)
    .map(line => {
      const [method = '', path = '', , , , group = ''] = line.split(',')
      return [`${method} /v1${path.replaceAll(/:(\w+)/g, '{$1}')}`, SCOPE_OF[group]] as const
    }),
)

// biome-ignore lint/suspicious/noExplicitAny: a document of any shape is looked into
const document: any = openApiDocument(operationsDescribed(), { baseUrl: 'https://api.example.com' })
const OPERATIONS = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
  // biome-ignore lint/suspicious/noExplicitAny: as above
  Object.entries<any>(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    method: method.toUpperCase(),
    path,
    tiers: operation['x-tiers'] as string[],
    isManaged: IS_MANAGED.has(operation['x-credential']),
    described: operation['x-scope'] as string,
    codes: JSON.stringify(document.components.responses[operation.responses[403]?.$ref?.split('/').pop()] ?? {}),
  })),
)
const KEYED = OPERATIONS.filter(({ tiers }) => tiers.length > 0)

describe('scopes of child keys', () => {
  const platform = useServers()
  let scenario: Scenario
  /** Keys by tier of their account and scope; `all` is confined to nothing. */
  const keys = {} as Record<Tier, Record<string, string>>

  before('the API and the feeds, and keys of every tier and scope', async () => {
    scenario = await openScenario(platform, { roles: ['api', 'feed'], config: { secretKey: newSecretKey() } })
    for (const tier of TIERS) {
      const { key: root, account_id } = await createAccountWithKey(scenario.database, { tier: 'quant' })
      keys[tier] = {}
      for (const scope of [...SCOPES, 'all']) {
        const scopes = scope === 'all' ? null : [scope]
        const { body, text } = await scenario.ask('/v1/account/sub-keys', {
          ...{ as: root, method: 'POST', body: { name: scope, scopes } },
        })
        expect(body.key, text).to.be.a('string')
        keys[tier][scope] = body.key
      }
      // Children are made on quant alone; an account may have another tier afterwards.
      await scenario.database.rows('UPDATE accounts SET tier = $2 WHERE id = $1', [account_id, tier])
    }
  })
  after('end of the scenario', () => scenario.close())

  /** The code of an answer; a stream that began is left at once. */
  async function codeOf(method: string, path: string, key: string): Promise<string | undefined> {
    const leave = new AbortController()
    const answer = await fetch(scenario.roles.baseUrl + path.replaceAll(/\{\w+\}/g, NEVER), {
      method,
      redirect: 'manual',
      headers: { authorization: `Bearer ${key}`, ...(method !== 'GET' && { 'content-type': 'application/json' }) },
      ...(!['GET', 'DELETE'].includes(method) && { body: '{}' }),
      signal: leave.signal,
    })
    const code = answer.ok ? undefined : (((await answer.json().catch(() => ({}))) as { code?: string }).code ?? '')
    leave.abort()
    return code
  }

  for (const { name, method, path, tiers, isManaged, described, codes } of KEYED)
    it(`${name} needs ${isManaged ? 'no child key' : described}`, async () => {
      const needed = isManaged ? 'none' : (BESIDE[name] ?? TABLE.get(name))
      expect(described, 'as it is described').to.equal(needed)
      expect(codes.includes('FORBIDDEN_SCOPE')).to.equal(!isManaged && needed !== 'any')
      for (const tier of TIERS) {
        for (const scope of [...SCOPES, 'all']) {
          const code = await codeOf(method, path, keys[tier][scope] as string)
          const isOpen = scope === 'all' || needed === 'any' || needed === scope
          const refusals = ['FORBIDDEN_TIER', 'FORBIDDEN_CHILD_KEY', 'FORBIDDEN_SCOPE', 'AUTH_INVALID_API_KEY']
          const where = `${tier} with ${scope}`
          if (!tiers.includes(tier)) expect(code, where).to.equal('FORBIDDEN_TIER')
          else if (isManaged) expect(code, where).to.equal('FORBIDDEN_CHILD_KEY')
          else if (isOpen) expect(code, where).not.to.be.oneOf(refusals)
          else expect(code, where).to.equal('FORBIDDEN_SCOPE')
        }
      }
    })

  it('are none of operations without a key', () => {
    for (const { tiers, described } of OPERATIONS) if (tiers.length === 0) expect(described).to.equal('any')
  })
})
