/**
 * Who may call what, and whose it is: cases made of the API's description, so that an operation added later has its own.
 *
 * Each operation with a key x tier: without a key, with a tier that may not, with one that may. Each operation on a record x
 * tier that may: its owner reaches it, another account of the same tier gets the very answer that an id which never
 * existed gets, and the record is as it was; with child keys of each account, in their scope and outside of it. Invariant: an operation on a record for which MAKERS has no maker fails.
 */
import { expect } from 'chai'
import type { Tier } from '#infra/config/tiers.ts'
import { TIERS } from '#infra/config/tiers.ts'
import { openApiDocument } from '#infra/http/openapi.ts'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { operationsDescribed } from '#test/fixtures/api-routes.ts'
import type { ApiScenario } from '#test/fixtures/api-scenario.ts'
import { openApiScenario } from '#test/fixtures/api-scenario.ts'
import type { Answer } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

interface Described {
  method: string
  path: string
  group: string
  tiers: string[]
  /** What a child key needs. */
  scope: string
  isManaged: boolean
  /** Media type and example of the body. */
  body: { type: string; example: unknown } | undefined
}

/** Ids of records by the name of their path parameter. */
type Ids = Record<string, string>
type Call = (method: string, path: string, body?: { type: string; example: unknown }) => Promise<Answer>

/** What no account owns. */
const PUBLIC_PARAMS = new Set(['item_id', 'provider'])
const SCOPES = ['market:read', 'feeds', 'portfolio', 'alerts', 'webhooks']
const NEVER = '00000000-0000-4000-8000-000000000000'
const json = (example: object) => ({ type: 'application/json', example })

/** How the record that a path names is made; the path as far as its last parameter. */
const MAKERS: Record<string, (call: Call, ids: Ids) => Promise<string>> = {
  '/v1/portfolio/{id}': async call => (await call('post', '/v1/portfolio', json({ name: 'mine' }))).body.id,
  '/v1/portfolio/{id}/items/{entry_id}': async (call, { id }) =>
    (await call('post', `/v1/portfolio/${id}/items`, json({ item_id: 4940, quantity: 2 }))).body.id,
  '/v1/portfolio/{id}/transactions/{tx_id}': async (call, { id }) => {
    const buy = { item_id: 4940, type: 'buy', quantity: 2, price: 5, date: '2026-01-05' }
    return (await call('post', `/v1/portfolio/${id}/transactions`, json(buy))).body.id
  },
  '/v1/account/alerts/{alert_id}': async call => {
    const alert = { item_id: 4940, kind: 'price_below', threshold_value: '1.00', is_enabled: false }
    return (await call('post', '/v1/account/alerts', json(alert))).body.id
  },
  '/v1/account/sub-keys/{id}': async call =>
    (await call('post', '/v1/account/sub-keys', json({ name: 'mine' }))).body.key_info.id,
  '/v1/account/webhooks/{id}': async call =>
    (await call('post', '/v1/account/webhooks', json({ label: 'mine', url: 'https://bot.example.com/' }))).body.webhook
      .id,
  '/v1/account/webhooks/deliveries/{id}': async call => {
    const { id } = (
      await call('post', '/v1/account/webhooks', json({ label: 'mine', url: 'https://bot.example.com/' }))
    ).body.webhook
    return (await call('post', `/v1/account/webhooks/${id}/test`)).body.delivery_id
  },
}

const FILE = 'date,type,item_id,quantity,price\r\n2026-01-05,buy,4940,1,100\r\n'

// biome-ignore lint/suspicious/noExplicitAny: a document of any shape is looked into
const document: any = openApiDocument(operationsDescribed(), { baseUrl: 'https://api.example.com' })
const OPERATIONS: Described[] = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
  // biome-ignore lint/suspicious/noExplicitAny: as above
  Object.entries<any>(methods).map(([method, operation]) => {
    const [body] = Object.entries<{ example?: unknown }>(operation.requestBody?.content ?? {})
    const [group] = operation.tags
    return {
      method,
      path,
      group,
      tiers: operation['x-tiers'],
      scope: operation['x-scope'],
      isManaged: operation['x-credential'] === 'management',
      body: body && { type: body[0], example: body[1].example },
    }
  }),
)
// The feeds are another role's: feed-openapi.test.ts.
const KEYED = OPERATIONS.filter(({ tiers, group }) => tiers.length > 0 && group !== 'Feeds')
const paramsOf = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
const OWNED = KEYED.filter(({ path }) => paramsOf(path).some(name => !PUBLIC_PARAMS.has(name)))

describe('ownership', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market behind the service', async () => {
    scenario = await openApiScenario(platform, 5, { secretKey: newSecretKey() })
  })
  after('end of the market', () => scenario.close())

  const callAs =
    (as: string | null): Call =>
    (method, path, body) => {
      if (body?.type === 'multipart/form-data') return upload(as, path)
      return scenario.ask(path, {
        as,
        method: method.toUpperCase(),
        ...(body && { body: JSON.stringify(body.example), headers: { 'content-type': body.type } }),
      })
    }
  const upload = (as: string | null, path: string): Promise<Answer> => {
    const body = `--x\r\ncontent-disposition: form-data; name="file"; filename="f.csv"\r\n\r\n${FILE}\r\n--x--\r\n`
    const headers = { 'content-type': 'multipart/form-data; boundary=x' }
    return scenario.ask(path, { as, method: 'POST', body, headers })
  }

  /** Makes the records of a path for an account, outermost first. */
  async function makeRecords(call: Call, path: string): Promise<Ids> {
    const ids: Ids = {}
    for (const name of paramsOf(path)) {
      const prefix = `${path.slice(0, path.indexOf(`{${name}}`))}{${name}}`
      const make = MAKERS[prefix]
      if (!make) throw new Error(`MAKERS has no maker of ${prefix}`)
      ids[name] = await make(call, ids)
      expect(ids[name], `the id of ${prefix}`).to.match(/^[0-9a-f-]{36}$/)
    }
    return ids
  }
  const filled = (path: string, ids: Ids): string => path.replaceAll(/\{(\w+)\}/g, (_, name) => ids[name] ?? '4940')
  const resultOf = ({ status, body }: Answer) => [status, body]

  for (const { method, path, tiers, body } of KEYED) {
    const at = filled(path, {}).replace('/4940/', `/${NEVER}/`)
    it(`${method.toUpperCase()} ${path} wants a key`, async () => {
      expect(resultOf(await callAs(null)(method, at, body))[0]).to.equal(401)
      expect((await callAs('sk_live_root_x')(method, at, body)).body.code).to.equal('AUTH_INVALID_API_KEY')
    })
    for (const tier of TIERS) {
      const isOpen = tiers.includes(tier)
      it(`${method.toUpperCase()} ${path} is ${isOpen ? 'open to' : 'closed to'} ${tier}`, async () => {
        const { status, body: reply } = await callAs(await platform.newKey(tier))(method, at, body)
        if (isOpen) expect([status, reply?.code]).not.to.satisfy(isRefusedByTier)
        else expect([status, reply.code]).to.deep.equal([403, 'FORBIDDEN_TIER'])
      })
    }
  }

  for (const { method, path, tiers, body } of OWNED)
    for (const tier of tiers as Tier[])
      it(`${method.toUpperCase()} ${path} belongs to its owner (${tier})`, async () => {
        const [owner, other] = [callAs(await platform.newKey(tier)), callAs(await platform.newKey(tier))]
        const mine = await makeRecords(owner, path)
        const theirs = await makeRecords(other, path)
        const before = await lookAt(owner, path, mine)
        const never = Object.fromEntries(Object.keys(mine).map(name => [name, NEVER]))
        const unknown = await other(method, filled(path, never), body)
        expect(unknown.status, unknown.text).to.equal(404)
        // Each parameter in turn is somebody else's, and all of them together.
        for (const ids of [mine, ...Object.keys(mine).map(name => ({ ...theirs, [name]: mine[name] as string }))]) {
          const answer = await other(method, filled(path, ids), body)
          expect(answer.status, answer.text).to.equal(404)
          for (const id of Object.values(mine)) expect(answer.text).not.to.include(id)
        }
        expect(resultOf(await other(method, filled(path, mine), body))).to.deep.equal(resultOf(unknown))
        expect(await lookAt(owner, path, mine)).to.deep.equal(before)
        const own = await owner(method, filled(path, mine), body)
        expect(own.status, own.text).not.to.be.oneOf([401, 404, 405, 500])
      })

  for (const { method, path, scope, isManaged, body } of OWNED)
    it(`${method.toUpperCase()} ${path} belongs to its owner, to child keys of scope ${scope} too`, async () => {
      const [root, stranger] = [await platform.newKey('quant'), await platform.newKey('quant')]
      const mine = await makeRecords(callAs(root), path)
      const childOf = async (of: string, scopes: string[]) => {
        const { body: made } = await callAs(of)('post', '/v1/account/sub-keys', json({ name: 'child', scopes }))
        return callAs(made.key)
      }
      const scopes = isManaged ? SCOPES : [scope]
      const others = SCOPES.filter(other => !scopes.includes(other))
      const [able, unable] = [await childOf(root, scopes), await childOf(root, isManaged ? scopes : others)]
      const foreign = await childOf(stranger, scopes)
      const at = filled(path, mine)
      const refusal = [403, isManaged ? 'FORBIDDEN_CHILD_KEY' : 'FORBIDDEN_SCOPE']
      const before = await lookAt(callAs(root), path, mine)
      for (const target of [at, filled(path, Object.fromEntries(Object.keys(mine).map(name => [name, NEVER])))]) {
        const { status, body: reply } = await unable(method, target, body)
        expect([status, reply.code]).to.deep.equal(refusal)
      }
      expect((await foreign(method, at, body)).status).to.equal(isManaged ? 403 : 404)
      expect(await lookAt(callAs(root), path, mine)).to.deep.equal(before)
      const own = await able(method, at, body)
      if (isManaged) expect(own.status).to.equal(403)
      else expect(own.status, own.text).not.to.be.oneOf([401, 404, 405, 500])
      if (!isManaged) expect(own.body?.code).not.to.equal('FORBIDDEN_SCOPE')
    })

  for (const tier of TIERS)
    it(`two accounts never see each other's ids (${tier})`, async () => {
      const calls = [callAs(await platform.newKey(tier)), callAs(await platform.newKey(tier))] as const
      const lists = KEYED.filter(one => one.method === 'get' && one.tiers.includes(tier) && !one.path.includes('{'))
      const made = await Promise.all(
        calls.map(async call => {
          const all: string[] = []
          for (const { path, tiers } of OWNED) {
            if (tiers.includes(tier)) all.push(...Object.values(await makeRecords(call, path)))
          }
          return all
        }),
      )
      for (const [i, call] of calls.entries()) {
        const texts = await Promise.all(lists.map(({ path }) => call('get', path)))
        const seen = texts.map(({ text }) => text).join()
        for (const id of made[1 - i] ?? []) expect(seen).not.to.include(id)
        expect(
          (made[i] ?? []).some(id => seen.includes(id)),
          'an account sees its own',
        ).to.equal(true)
      }
    })

  /** What the owner sees of the records of a path: all lists below and beside them. */
  async function lookAt(call: Call, path: string, ids: Ids): Promise<unknown[]> {
    const [first = ''] = paramsOf(path)
    const root = path.slice(0, path.indexOf(`/{${first}}`))
    const reads = KEYED.filter(
      one => one.method === 'get' && one.path.startsWith(root) && one.path.split('/')[3] !== 'value',
    )
    const seen: unknown[] = []
    for (const one of reads) {
      if (paramsOf(one.path).some(name => !(name in ids)) || /value|performance|history|export/.test(one.path)) continue
      const result = resultOf(await call('get', filled(one.path, ids)))
      // It is written some time after the use.
      seen.push(JSON.parse(JSON.stringify(result, (name, value) => (name === 'last_used_at' ? undefined : value))))
    }
    return seen
  }
})

const isRefusedByTier = ([status, code]: [number, string?]): boolean =>
  [401, 405].includes(status) || code === 'FORBIDDEN_TIER'
