/**
 * Every operation under /account, as the API's description lists them, against callers who mean harm.
 *
 * Made of the description alone: an operation that is added later is swept by itself. Two accounts, four tiers, child
 * keys, a session: nothing but described answers; no account reads or changes what is another's.
 */
import { expect } from 'chai'
import { TIERS, type Tier } from '#infra/config/tiers.ts'
import { createAccountWithKey, newKeyText } from '#services/accounts/keys/commands.ts'
import {
  filledPath,
  HOSTILE_TEXTS,
  hostileBodies,
  hostileQueries,
  idsIn,
  isManaged,
  queryOf,
  type SweptOperation,
  sweptOperations,
  widenedBodies,
} from '#test/fixtures/hostile-requests.ts'
import { openSignInScenario, type SignInScenario } from '#test/fixtures/sign-in-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const MARKER = 'only of the second account'
const AT_ONCE = 8
const ID = '11111111-1111-4111-8111-111111111111'

interface Answer {
  status: number
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
  body: any
}

/** Who asks. */
interface Caller {
  accountId: string
  root: string
  child: string
}

const isUnder = (path: string): boolean => /^\/v1\/account(\/|$)/.test(path)

describe('the sweep of account routes', () => {
  const platform = useServers()
  let scenario: SignInScenario
  let operations: SweptOperation[]
  let guarded: SweptOperation[]
  let first: Caller
  let second: Caller
  let session: string
  const keys = {} as Record<Tier, string>
  /** What the second account's answers named. */
  const theirs = new Set<string>()
  let asked = 0

  before('the API, two accounts that hold something, and keys that are good no more', async () => {
    scenario = await openSignInScenario(platform, { roles: ['api'] })
    const document = await (await fetch(`${scenario.baseUrl}/v1/openapi.json`)).json()
    operations = sweptOperations(document, isUnder)
    guarded = operations.filter(({ credential }) => credential !== 'none')
    first = await openCaller()
    second = await openCaller()
    for (const tier of TIERS) keys[tier] = await platform.newKey(tier)
    const tokens = await scenario.signIn(scenario.personOf('ada', { email: 'ada@example.com', email_verified: true }))
    session = tokens.access_token
    await scenario.database.rows(
      `UPDATE accounts SET tier = 'quant' WHERE id = (SELECT account_id FROM identities WHERE subject = 'ada')`,
    )
    await fillSecond()
  })
  after('end of the scenario', () => scenario.close())

  async function openCaller(): Promise<Caller> {
    const { key: root, account_id: accountId } = await createAccountWithKey(scenario.database, { tier: 'quant' })
    const made = await scenario.ask('/v1/account/sub-keys', { method: 'POST', as: root, body: { name: MARKER } })
    return { accountId, root, child: made.body.key }
  }

  /** Sends a request as it is; the answer must be a described one, and no fault of ours. */
  async function send(
    { method, path: template, statuses }: SweptOperation,
    request: { path: string; as?: string; body?: string; contentType?: string; what: string },
  ): Promise<Answer> {
    asked += 1
    const answer = await fetch(scenario.baseUrl + request.path, {
      method,
      redirect: 'manual',
      headers: {
        ...(request.as !== undefined && { authorization: `Bearer ${request.as}` }),
        ...(request.body !== undefined && { 'content-type': request.contentType ?? 'application/json' }),
      },
      ...(request.body !== undefined && { body: request.body }),
    })
    const text = await answer.text()
    const at = `${method} ${template}, ${request.what}: ${answer.status} ${text.slice(0, 300)}`
    expect(statuses, at).to.include(answer.status)
    expect(answer.status, at).to.be.below(500)
    const isJson = answer.headers.get('content-type')?.startsWith('application/json') && text !== ''
    const body = isJson ? JSON.parse(text) : undefined
    if (answer.status >= 400) expect({ omitted: 0, ...body }, at).to.have.keys('code', 'detail', 'omitted')
    return { status: answer.status, text, body }
  }

  /** Runs requests, some at once. */
  async function forAll<T>(values: readonly T[], work: (value: T) => Promise<void>): Promise<void> {
    const waiting = values[Symbol.iterator]()
    const workers = Array.from({ length: AT_ONCE }, async () => {
      for (const value of waiting) await work(value)
    })
    await Promise.all(workers)
  }

  const plainPath = (operation: SweptOperation, id = ID): string =>
    filledPath(
      operation,
      operation.pathParameters.map(() => id),
    ) + queryOf(operation)

  const bodyOf = ({ body }: SweptOperation): { body?: string } => (body ? { body: JSON.stringify(body.example) } : {})

  /** A body that is looked at would be a 400. */
  const unreadable = ({ body }: SweptOperation): { body?: string } => (body ? { body: '{' } : {})

  /** Everything that can be created without an id is created by example, then whatever can be done to what it named. */
  async function fillSecond(): Promise<void> {
    const creates = guarded.filter(({ method, path }) => method === 'POST' && !path.includes('reissue'))
    for (const operation of creates.sort((a, b) => a.pathParameters.length - b.pathParameters.length)) {
      const example = { ...operation.body?.example, ...('name' in (operation.body?.example ?? {}) && { name: MARKER }) }
      if ('label' in example) Object.assign(example, { label: MARKER })
      const body = operation.body ? { body: JSON.stringify(example) } : {}
      const ids = operation.pathParameters.length === 0 ? [ID] : [...theirs]
      for (const id of ids) {
        const path = plainPath(operation, id)
        const { text, status } = await send(operation, { path, as: second.root, what: 'of its owner', ...body })
        if (status < 300) for (const named of idsIn(text)) theirs.add(named)
      }
    }
    for (const operation of guarded.filter(
      ({ method, pathParameters }) => method === 'GET' && !pathParameters.length,
    )) {
      const { text } = await send(operation, { path: plainPath(operation), as: second.root, what: 'of its owner' })
      for (const named of idsIn(text)) theirs.add(named)
    }
    expect(theirs.size).to.be.greaterThan(5)
  }

  /** All rows that belong to an account, but for the moments of use. */
  async function rowsOf(accountId: string): Promise<string> {
    const tables = await scenario.database.rows<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.columns
       WHERE table_schema = 'public' AND column_name = 'account_id' ORDER BY 1`,
    )
    const rows: unknown[] = []
    for (const { name } of [...tables, { name: 'accounts' }]) {
      const column = name === 'accounts' ? 'id' : 'account_id'
      const found = await scenario.database.rows<{ row: Record<string, unknown> }>(
        `SELECT to_jsonb(t) - 'last_used_at' AS row FROM ${name} t WHERE ${column} = $1 ORDER BY 1`,
        [accountId],
      )
      rows.push([name, found.map(({ row }) => row)])
    }
    return JSON.stringify(rows, undefined, 1)
  }

  it('sees operations of keys, sign-in, alerts and webhooks', () => {
    for (const group of ['key', 'sub-keys', 'session', 'email', 'platform', 'alerts', 'webhooks']) {
      expect(
        operations.map(({ path }) => path.split('/')[3]),
        group,
      ).to.include(group)
    }
    console.log(`      ${operations.length} operations, ${theirs.size} ids of the second account`)
  })

  describe('credentials', () => {
    it('that are missing, malformed, unknown, forged, revoked, expired or of a disabled account are refused', async () => {
      const made = await Promise.all(
        Array.from({ length: 4 }, () => createAccountWithKey(scenario.database, { tier: 'quant' })),
      )
      const [revoked, expired, disabled, orphan] = made as [
        (typeof made)[0],
        (typeof made)[0],
        (typeof made)[0],
        (typeof made)[0],
      ]
      const child = await scenario.ask('/v1/account/sub-keys', { method: 'POST', as: orphan.key, body: { name: 'x' } })
      const set = (what: string, id: string) => scenario.database.rows(`UPDATE ${what} WHERE id = $1`, [id])
      await set('api_keys SET revoked_at = now()', revoked.key_id)
      await set('api_keys SET expires_at = now()', expired.key_id)
      await set('accounts SET disabled_at = now()', disabled.account_id)
      await set('api_keys SET revoked_at = now()', orphan.key_id)
      const cases: [what: string, as: string | undefined, code: string][] = [
        ['no key', undefined, 'AUTH_INVALID_API_KEY'],
        ['no key at all', '', 'AUTH_INVALID_API_KEY'],
        ['malformed', 'sk_live_root_short', 'AUTH_INVALID_API_KEY'],
        ['unknown', newKeyText('root'), 'AUTH_INVALID_API_KEY'],
        ['the hash of a key', Buffer.alloc(32, 1).toString('hex'), 'AUTH_INVALID_API_KEY'],
        ['a forged session', `${session.slice(0, -8)}AAAAAAAA`, 'AUTH_INVALID_API_KEY'],
        ['revoked', revoked.key, 'AUTH_API_KEY_REVOKED'],
        ['expired', expired.key, 'AUTH_INVALID_API_KEY'],
        ['disabled', disabled.key, 'AUTH_ACCOUNT_DISABLED'],
        ['a child of a revoked root', child.body.key, 'AUTH_API_KEY_REVOKED'],
      ]
      const isRefused = async () => (await scenario.ask('/v1/account/key', { as: child.body.key })).status === 401
      await eventually(isRefused, 'the revocation of the root')
      await forAll(guarded, async operation => {
        for (const [what, as, code] of cases) {
          const { body } = await send(operation, { path: plainPath(operation), as, what, ...bodyOf(operation) })
          expect(body.code, `${operation.method} ${operation.path}, ${what}`).to.equal(code)
        }
      })
    })

    it('of a lower tier, and child keys where keys are managed, are refused before anything is looked at', async () => {
      await forAll(guarded, async operation => {
        for (const tier of TIERS) {
          if (operation.tiers.includes(tier)) continue
          const { body } = await send(operation, {
            path: plainPath(operation),
            as: keys[tier],
            what: tier,
            ...unreadable(operation),
          })
          expect(body.code, `${operation.method} ${operation.path} as ${tier}`).to.equal('FORBIDDEN_TIER')
        }
        if (!isManaged(operation)) return
        const request = { path: plainPath(operation), as: first.child, what: 'child key', ...unreadable(operation) }
        expect((await send(operation, request)).body.code).to.equal('FORBIDDEN_CHILD_KEY')
      })
    })
  })

  describe('another account', () => {
    it('is neither read nor changed by its ids, its lists or its names', async () => {
      const before = await rowsOf(second.accountId)
      expect(before).to.include(MARKER)
      const ids = [...theirs]
      const isForeign = (text: string) => ids.find(id => text.includes(id)) ?? (text.includes(MARKER) && MARKER)
      await scenario.database.rows(`UPDATE api_keys SET name = 'mine' WHERE account_id = $1`, [first.accountId])
      // What ends the caller's own keys names no other account's.
      const ending = ['/v1/account/key/reissue', '/v1/account/session', '/v1/account/session/revoke-all']
      const able = guarded.filter(({ path }) => !ending.includes(path))
      for (const as of [first.root, first.child, session]) {
        await forAll(able, async operation => {
          if (isManaged(operation) && as === first.child) return
          for (const id of operation.pathParameters.length > 0 ? [...ids, ID] : [ID]) {
            const plain = { path: plainPath(operation, id), as, what: `id ${id}`, ...bodyOf(operation) }
            const { status, text, body } = await send(operation, plain)
            const at = `${operation.method} ${operation.path}, id ${id}: ${status} ${text.slice(0, 200)}`
            if (operation.pathParameters.length > 0) {
              expect(status, at).to.equal(404)
              expect(body.code, at).to.match(/_NOT_FOUND$/)
            }
            expect(isForeign(text) || undefined, at).to.equal(undefined)
          }
        })
      }
      expect(await rowsOf(second.accountId)).to.equal(before)
    })
  })

  describe('hostile requests', () => {
    const callerOf = ({ credential }: SweptOperation) =>
      credential === 'none' ? {} : { as: credential === 'recent-session' ? session : first.root }

    it('with members that no schema names are refused, each one by name', async () => {
      const before = await rowsOf(first.accountId)
      await forAll(operations, async operation => {
        for (const body of widenedBodies(operation)) {
          const request = { path: plainPath(operation), ...callerOf(operation), body, what: body }
          const answer = await send(operation, request)
          expect(answer.status, `${operation.method} ${operation.path} ${body}`).to.equal(422)
          expect(answer.body.detail.map(({ type }: { type: string }) => type)).to.include('extra_forbidden')
        }
      })
      expect(await rowsOf(first.accountId)).to.equal(before)
    })

    it('with bodies of wrong, huge and strange values get described answers alone', async () => {
      for (const operation of operations.filter(({ body }) => body)) {
        // Of each kind of thing there is one: what a hostile body may change is the caller's own.
        await forAll(hostileBodies(operation), async request => {
          await send(operation, { path: plainPath(operation), ...callerOf(operation), ...request })
        })
      }
    })

    it('with strange ids, parameters and repeated ones get described answers alone', async () => {
      for (const operation of operations.filter(({ path }) => path !== '/v1/account/login')) {
        const paths = operation.pathParameters.length === 0 ? [] : HOSTILE_TEXTS.filter(text => text !== '')
        const requests = [
          ...paths.map(text => ({
            path: plainPath(operation, text),
            what: `path ${JSON.stringify(text.slice(0, 40))}`,
          })),
          ...hostileQueries(operation).map(query => ({
            path: filledPath(operation, [ID, ID]) + query,
            what: query.slice(0, 60),
          })),
        ]
        await forAll(requests, async request => {
          await send(operation, { ...request, ...callerOf(operation), ...bodyOf(operation) })
        })
      }
    })
  })

  describe('afterwards', () => {
    it('each of those paths still opens something to the owner of those ids, so that the sweep was not vacuous', async () => {
      const order = ['GET', 'PATCH', 'POST', 'DELETE']
      const byId = guarded.filter(({ pathParameters }) => pathParameters.length > 0)
      for (const operation of byId.sort((a, b) => order.indexOf(a.method) - order.indexOf(b.method))) {
        const statuses: number[] = []
        for (const id of [...theirs]) {
          const own = { path: plainPath(operation, id), as: second.root, what: 'of its owner', ...bodyOf(operation) }
          const { status, text } = await send(operation, own)
          statuses.push(status)
          for (const named of idsIn(text)) theirs.add(named)
        }
        const at = `${operation.method} ${operation.path}: ${statuses}`
        expect(
          statuses.some(status => status !== 404),
          at,
        ).to.equal(true)
      }
      console.log(`      ${asked} requests sent`)
    })
  })
})
