/**
 * Every operation of the API and of the feeds x credential, tier, scope, owner and hostile input, on a whole platform.
 *
 * Made of the pinned description (openapi.json), so that what code opens, renames or forgets is seen against it, and an operation that
 * is added later is asked like the others. Each answer fits its described schema, and none is a fault of the server (sweep-scenario.ts).
 */
import { expect } from 'chai'
import { TIERS, type Tier } from '#infra/config/tiers.ts'
import { isConsoleBuilt } from '#services/api/site.ts'
import { endpointsAlone, operationsDescribed } from '#test/fixtures/api-routes.ts'
import { expectClientAnswers } from '#test/fixtures/client-calls.ts'
import { guideNames } from '#test/fixtures/guide-snippets.ts'
import {
  type Breach,
  bodiesBreaking,
  HOSTILE_TEXTS,
  hostileBodies,
  hostileQueries,
  queriesBreaking,
} from '#test/fixtures/hostile-requests.ts'
import {
  childOf,
  NEVER,
  OPERATIONS,
  operationNamed,
  pathOf,
  plainRequest,
  recordsFor,
  sentOf,
  unreadableRequest,
  variantsOf,
} from '#test/fixtures/operation-requests.ts'
import { type Ids, MARKER, PUBLIC_PARAMS } from '#test/fixtures/operation-steps.ts'
import type { PinnedOperation } from '#test/fixtures/pinned-operations.ts'
import { checkForms, neededPaths, noteValues } from '#test/fixtures/reply-paths.ts'
import {
  type FullAccount,
  openFullAccount,
  type Refused,
  refusedCredentials,
  rowsNaming,
  scopedKeys,
} from '#test/fixtures/sweep-accounts.ts'
import { type Caller, openSweep, type Sent, type Sweep } from '#test/fixtures/sweep-scenario.ts'
import type { Answer } from '#test/harness/scenario.ts'
import { openSse } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'

const AT_ONCE = 8
const START_LIMIT_MS = 600_000
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/** Pages are no operations: what they answer without a key and without a token. */
const PAGES: Record<string, [status: number, type: string]> = {
  'GET /': [200, 'application/json'],
  'GET /assets/:name': [404, 'application/json'],
  'GET /openapi.json': [200, 'application/json'],
  'GET /asyncapi.json': [200, 'application/json'],
  'GET /llms.txt': [200, 'text/plain'],
  'GET /docs': [200, 'text/html'],
  'GET /docs/reference': [200, 'text/html'],
  ...Object.fromEntries(
    guideNames()
      .filter(name => name !== 'overview')
      .map(name => [`GET /docs/${name}`, [200, 'text/html']]),
  ),
  'GET /console/assets/:name': [404, 'application/json'],
  'GET /console{/*path}': isConsoleBuilt() ? [200, 'text/html'] : [404, 'application/json'],
  'GET /unsubscribe': [404, 'application/json'],
  'POST /unsubscribe': [404, 'application/json'],
}

/** A portfolio holds items of the catalog alone, which never lose their ids; a file with errors is refused, and its 422 lists them. */
const ALWAYS_EMPTY = [
  'GET /v1/portfolio/{id}/value.data.items_not_found[]',
  ...['unresolved[]', 'errors[]', 'errors[].row', 'errors[].message'].map(
    list => `POST /v1/portfolio/{id}/import/csv.${list}`,
  ),
]

const formOf = (one: PinnedOperation): RegExp => new RegExp(`^${one.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
const isOwned = ({ pathParameters }: PinnedOperation): boolean => pathParameters.some(name => !PUBLIC_PARAMS.has(name))
const isManaged = ({ credential }: PinnedOperation): boolean => ['management', 'recent-session'].includes(credential)
const isRecent = ({ credential }: PinnedOperation): boolean => credential === 'recent-session'
const isEvents = ({ success }: PinnedOperation): boolean => success.type === 'text/event-stream'

describe('every operation', () => {
  const platform = useServers()
  let sweep: Sweep
  /** Whose records nobody else may see or change. */
  let full: FullAccount
  let fullRows: string[]
  let other: Caller
  let refused: Refused[]
  const scoped = {} as Record<Tier, Record<string, string>>
  const seen = new Set<string>()

  before('a platform with a market, and accounts', async function () {
    this.timeout(START_LIMIT_MS)
    sweep = await openSweep(platform)
    other = await sweep.openCaller('quant')
    refused = await refusedCredentials(sweep, (await sweep.openSigned('quant')).session.access_token)
    for (const tier of TIERS) scoped[tier] = await scopedKeys(sweep, tier)
    full = await openFullAccount(sweep)
    // Before the rows are read: an export is in the audit log.
    await expectAnswers(operationNamed('GET /v1/account/export'), full.caller, {})
    fullRows = await rowsNaming(sweep.database, full.ids)
  })
  after('end of the platform', () => sweep?.close())

  const send = (operation: PinnedOperation, sent: Sent): Promise<Answer> => sweep.send(operation, sent)

  async function forAll<T>(
    values: readonly T[],
    work: (value: T) => Promise<unknown>,
    atOnce = AT_ONCE,
  ): Promise<void> {
    const waiting = values[Symbol.iterator]()
    const workers = Array.from({ length: atOnce }, async () => {
      for (const value of waiting) await work(value)
    })
    await Promise.all(workers)
  }

  const openFor = (operation: PinnedOperation, tier: Tier): Promise<Caller> =>
    isRecent(operation) ? sweep.openSigned(tier) : sweep.openCaller(tier)

  /** An operation answers its caller, whose records it names. */
  async function expectAnswers(operation: PinnedOperation, caller: Caller, ids: Ids): Promise<void> {
    const { success, name, tiers } = operation
    const variants = await variantsOf(operation, sweep, caller)
    for (const variant of caller.tier === 'quant' ? variants : variants.slice(0, 1)) {
      const own = isRecent(operation) ? caller.session?.access_token : caller.key
      const { as = tiers.length > 0 ? own : undefined, ...sent } = sentOf(operation, ids, variant)
      const { status, headers, text, body } = await send(operation, { ...sent, as })
      const type = headers.get('content-type')?.split(';')[0]
      expect([status, type], `${name} ${caller.tier} ${text.slice(0, 300)}`).to.deep.equal([
        success.status,
        success.type,
      ])
      const lines =
        type === 'application/x-ndjson'
          ? text
              .trimEnd()
              .split('\n')
              .map(line => JSON.parse(line))
          : [body]
      for (const line of lines) {
        checkForms(line, name)
        if (success.schema) noteValues(line, success.schema, name, seen)
      }
    }
  }

  it('is one that the API or the feeds serve, and they serve no other but the pages', () => {
    const served = endpointsAlone().map(({ method, path }) => `${method.toUpperCase()} ${path}`)
    const described = OPERATIONS.map(({ name }) => name.replace('/v1', '').replaceAll(/\{(\w+)\}/g, ':$1'))
    expect(served.sort()).to.deep.equal([...described, ...Object.keys(PAGES)].sort())
  })

  for (const operation of OPERATIONS)
    describe(operation.name, () => {
      const { tiers, name, credential } = operation
      const isOpenTo = (tier: Tier) => tiers.length === 0 || tiers.includes(tier)

      if (tiers.length > 0) {
        it('refuses credentials that are missing, malformed, unknown, forged, revoked, expired or of a disabled account', () =>
          forAll(refused, async ([what, as, code]) => {
            const { body, headers } = await send(operation, { ...plainRequest(operation), as })
            expect(body.code, what).to.equal(code)
            if (code === 'AUTH_INVALID_API_KEY') expect(headers.get('www-authenticate')).to.equal('Bearer')
          }))

        it(`needs ${isManaged(operation) ? 'no child key' : `the scope ${operation.scope}`}`, () =>
          forAll(TIERS, async tier => {
            for (const [scope, as] of Object.entries(scoped[tier])) {
              const { body } = await send(operation, { ...unreadableRequest(operation), as })
              const isOpen = [scope, 'any'].includes(operation.scope) || scope === 'all'
              const at = `${tier} with ${scope}`
              if (!tiers.includes(tier)) expect(body?.code, at).to.equal('FORBIDDEN_TIER')
              else if (isManaged(operation)) expect(body?.code, at).to.equal('FORBIDDEN_CHILD_KEY')
              else if (isOpen) expect(body?.code, at).not.to.match(/^(FORBIDDEN|AUTH)/)
              else expect(body?.code, at).to.equal('FORBIDDEN_SCOPE')
            }
          }))
      }

      it(`answers ${tiers.length > 0 ? `${tiers.join(', ')}, and no other tier` : 'without a key'}`, () =>
        forAll(TIERS, async tier => {
          const caller = await openFor(operation, tier)
          if (isOpenTo(tier)) return expectAnswers(operation, caller, await recordsFor(operation, sweep, caller))
          for (const root of ['', '/v1']) {
            const { path, ...sent } = unreadableRequest(operation)
            const { status, body } = await send(operation, { ...sent, path: root + path.slice(3), as: caller.key })
            expect([status, body.code], tier).to.deep.equal([403, 'FORBIDDEN_TIER'])
          }
        }))

      it('answers the TypeScript client', async () => {
        const caller = await openFor(operation, 'quant')
        const ids = await recordsFor(operation, sweep, caller)
        const [variant = {}] = await variantsOf(operation, sweep, caller)
        await expectClientAnswers(sweep.signIn.baseUrl, operation, { ids, variant, key: caller.key })
      })

      if (isRecent(operation))
        it('takes no key', async () => {
          const { body } = await send(operation, { ...unreadableRequest(operation), as: other.key })
          expect(body.code).to.equal('RECENT_SESSION_REQUIRED')
        })

      if (isOwned(operation))
        it('answers its owner alone, and changes nothing of another', () =>
          forAll(tiers, tier => expectOwned(operation, tier)))

      it('refuses what breaks a rule of its schema, and names it', async () => {
        const caller = await openFor(operation, 'quant')
        const as = tiers.length > 0 ? caller.key : undefined
        const [variant = {}] = await variantsOf(operation, sweep, caller)
        const sent = sentOf(operation, await recordsFor(operation, sweep, caller), { ...variant, as })
        const [path = '', query = ''] = sent.path.split('?')
        const expectNamed = async (place: string, { at }: Pick<Breach, 'at'>, broken: Partial<Sent>) => {
          const { status, body, text } = await send(operation, { ...sent, as, ...broken })
          const given = `${name} ${place} ${at.join('.')} ${JSON.stringify(broken).slice(0, 300)}: ${text.slice(0, 300)}`
          expect(status, given).to.equal(422)
          const locs: string[] = body.detail.map(({ loc }: { loc: unknown[] }) => `${loc.join('.')}.`)
          expect(locs.join(' '), given).to.include(`${[place, ...at].join('.')}.`)
        }
        // Streams and exports are open some at a time.
        const atOnce = credential === 'stream' || isRecent(operation) ? 1 : AT_ONCE
        // A token is looked at instead of a key.
        const isLookedAt = ({ at }: Breach) => credential !== 'stream' || at[0] !== 'token'
        const queries = queriesBreaking(operation, query).filter(isLookedAt)
        await forAll(queries, one => expectNamed('query', one, { path: `${path}${one.value}` }), atOnce)
        // Their bounds are those of the tiers, which are lifted here.
        const isBounded = ({ at }: Breach) => !String(at.at(-1)).endsWith('_override')
        const bodies = bodiesBreaking(operation, variant.body).filter(isBounded)
        await forAll(bodies, one => expectNamed('body', one, { body: JSON.stringify(one.value) }), atOnce)
        if (tiers.length === 0) return
        for (const param of operation.pathParameters)
          await expectNamed('path', { at: [param] }, { path: pathOf(operation, { [param]: 'x' }) })
      })

      it('gives described answers alone to what is hostile', async () => {
        const caller = await openFor(operation, 'quant')
        const ids = await recordsFor(operation, sweep, caller)
        const as = tiers.length > 0 ? caller.key : undefined
        const [plain, path] = [{ ...plainRequest(operation, ids), as }, pathOf(operation, ids)]
        await forAll(hostileQueries(operation), query => send(operation, { ...plain, path: path + query }))
        await forAll(hostileBodies(operation), sent => send(operation, { ...plain, ...sent }))
        const texts = HOSTILE_TEXTS.filter(text => text !== '')
        for (const param of operation.pathParameters)
          await forAll(texts, text => send(operation, { ...plain, path: pathOf(operation, { ...ids, [param]: text }) }))
        if (operation.isUpload) expect((await send(operation, { ...plain, body: '{}' })).status).to.equal(415)
      })

      it('is the same at the root, and its path takes no method that is not described', async () => {
        const path = pathOf(operation)
        const here = OPERATIONS.filter(one => one.path === operation.path).map(({ method }) => method)
        const allowed = [...here, ...(here.includes('GET') && !isEvents(operation) ? ['HEAD'] : [])].sort()
        // `deliveries` is an id to the path beside it.
        const others = OPERATIONS.filter(one => formOf(one).test(path))
        const taken = new Set([...allowed, ...others.map(({ method }) => method)])
        for (const method of METHODS.filter(one => !taken.has(one)))
          for (const root of ['', '/v1']) {
            const answer = await send(operation, { path: root + path.slice(3), method, as: other.key })
            const { status, headers } = answer
            expect([status, headers.get('allow')], method).to.deep.equal([405, `${allowed.join(', ')}, OPTIONS`])
          }
        if (operation.method !== 'GET' || isEvents(operation)) return
        const sent = { ...plainRequest(operation), as: (await openFor(operation, 'quant')).key }
        const [get, root, head] = [
          await send(operation, sent),
          await send(operation, { ...sent, path: sent.path.slice(3) }),
          await send(operation, { ...sent, method: 'HEAD' }),
        ]
        expect([root.status, head.status, head.text]).to.deep.equal([get.status, get.status, ''])
      })
    })

  /** Of two accounts of a tier each reaches its own records; another's are answered like those that never were. */
  async function expectOwned(operation: PinnedOperation, tier: Tier): Promise<void> {
    const [owner, foreigner] = await Promise.all([sweep.openCaller(tier), sweep.openCaller(tier)])
    const [mine, theirs] = await Promise.all([owner, foreigner].map(one => recordsFor(operation, sweep, one)))
    const ids = mine as Ids
    const rows = () => rowsNaming(sweep.database, [owner.accountId, ...Object.values(ids)])
    const before = await rows()
    const [variant = {}] = await variantsOf(operation, sweep, foreigner)
    const askAs = (as: string, named: Ids) => send(operation, { ...sentOf(operation, named, variant), as })
    const unknown = await askAs(foreigner.key, Object.fromEntries(Object.keys(ids).map(name => [name, NEVER])))
    expect([unknown.status, /_NOT_FOUND$/.test(unknown.body.code)], unknown.text).to.deep.equal([404, true])
    expect((await askAs(foreigner.key, ids)).body).to.deep.equal(unknown.body)
    for (const [name, id] of Object.entries(ids)) {
      const answer = await askAs(foreigner.key, { ...theirs, [name]: id })
      expect([answer.status, answer.text.includes(id)], answer.text).to.deep.equal([404, false])
    }
    const hasChildren = tier === 'quant' && !isManaged(operation)
    if (hasChildren) expect((await askAs(await childOf(sweep, foreigner, [operation.scope]), ids)).status).to.equal(404)
    expectSame(await rows(), before)
    const own = await askAs(hasChildren ? await childOf(sweep, owner, [operation.scope]) : owner.key, ids)
    expect(own.status, own.text).to.equal(operation.success.status)
  }

  describe('that reads', () => {
    const reads = OPERATIONS.filter(
      one => one.method === 'GET' && one.tiers.length > 0 && !isRecent(one) && !isEvents(one),
    )

    it('answers an account that has one of everything', () =>
      forAll(reads, async operation => {
        const prefix = operation.path.slice(0, operation.path.lastIndexOf('}') + 1)
        const ids = full.records.get(prefix) ?? (await recordsFor(operation, sweep, full.caller))
        return expectAnswers(operation, full.caller, ids)
      }))

    it('shows nothing of that account to another', () =>
      forAll(reads, async operation => {
        const { text } = await send(operation, { ...plainRequest(operation), as: other.key })
        const secrets = [...full.ids, MARKER].filter(secret => text.includes(secret))
        expect(secrets, operation.name).to.deep.equal([])
      }))
  })

  describe('that streams events', () => {
    for (const { path, reply } of operationsDescribed().filter(one => one.reply.events))
      it(`${path} sends what the schemas of its events accept`, async () => {
        const { key } = await sweep.openCaller('quant')
        const query = path.includes('replay') ? `?from=${new Date(0).toISOString()}&speed=0` : '?snapshot=true'
        const client = await openSse(`${sweep.signIn.baseUrl}/v1${path}${query}`, { key })
        // A resync comes to streams that fell behind alone: feed-resume.test.ts; and a sale once in hours, but a replay has those before.
        const seldom = path === '/feed/sales' ? ['resync', 'sales.recorded'] : ['resync']
        for (const [name, { schema }] of Object.entries(reply.events ?? {}))
          if (!seldom.includes(name)) {
            const { data } = await client.event(({ event }) => event === name)
            schema.parse(data)
            checkForms(data, `${path} ${name}`)
          }
        client.close()
      })
  })

  describe('of all accounts', () => {
    it('left what belongs to another as it was', async () =>
      expectSame(await rowsNaming(sweep.database, full.ids), fullRows))

    it('answered a value of each member that is never null', () => {
      const paths = OPERATIONS.flatMap(({ name, success }) => [...neededPaths(success.schema ?? {}, name)])
      const empty = paths.filter(path => path.includes('.') && !seen.has(path))
      expect(empty.join('\n')).to.equal(ALWAYS_EMPTY.join('\n'))
    })
  })

  describe('beside the pages', () => {
    for (const [name, [status, type]] of Object.entries(PAGES))
      it(`${name} needs no key`, async () => {
        const [method = '', path = ''] = name.split(' ')
        for (const query of ['', '?token=x', '?a=%00'])
          for (const root of ['', '/v1']) {
            const url = sweep.signIn.baseUrl + root + path.replace('{/*path}', '') + query
            const answer = await fetch(url, { method })
            await answer.arrayBuffer()
            const at = answer.headers.get('content-type')?.split(';')[0]
            expect([answer.status, at], query).to.deep.equal([status, type])
          }
      })
  })
})

const expectSame = (after: string[], before: string[]): void => {
  const [added, gone] = [after.filter(row => !before.includes(row)), before.filter(row => !after.includes(row))]
  expect({ added, gone }).to.deep.equal({ added: [], gone: [] })
}
