import { expect } from 'chai'
import { monthKey } from '#infra/redis/request-meter.ts'
import { openSignInScenario, type SignInScenario } from '#test/fixtures/sign-in-scenario.ts'
import { openReceiver, type Receiver, status } from '#test/fixtures/webhook-receiver.ts'
import { EVENT, writeEvent } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { openSse } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { waitingForLocks, whileLocked } from '#test/harness/while-locked.ts'

const ITEM = 4940
/** More than are read at once. */
const MANY = 1_203
const SECRET = /sk_live_\w+_[\w-]{43}|whsec_|refresh_|verify_|secret|[0-9a-f]{64}/i

describe('the data of an account', () => {
  const platform = useServers()
  let scenario: SignInScenario
  let receiver: Receiver
  before('all roles that keep something of an account', async () => {
    receiver = await openReceiver()
    scenario = await openSignInScenario(platform, {
      roles: ['api', 'feed', 'alerts'],
      overrides: { webhookAllow: [`127.0.0.1:${receiver.port}`] },
    })
  })
  after(async () => {
    await scenario.close()
    await receiver.close()
  })

  const ask = (method: string, path: string, as: string, body?: unknown) =>
    scenario.ask(`/v1${path}`, { method, as, body })
  const made = async (path: string, as: string, body: object) => {
    const answer = await ask('POST', path, as, body)
    expect(answer.status, answer.text).to.be.within(200, 201)
    return answer.body
  }
  const remove = (session: string, confirm: unknown) => ask('DELETE', '/account', session, { confirm })

  async function openOwner(name: string) {
    const session = (await scenario.signInAs(name)).access_token
    const { id, email } = (await ask('GET', '/account', session)).body
    await scenario.database.rows(`UPDATE accounts SET tier = 'quant' WHERE id = $1`, [id])
    const root = (await made('/account/key/reissue', session, {})).key
    const child = (await made('/account/sub-keys', root, { name: 'child', scopes: ['feeds', 'alerts'] })).key
    const hook = { label: 'hook', url: `${receiver.url}/${name}` }
    const webhook = (await made('/account/webhooks', root, hook)).webhook.id
    const alert = { item_id: ITEM, kind: 'price_below', threshold_value: '1.00', threshold_currency: 'USD' }
    await made('/account/alerts', root, alert)
    await made('/account/alerts', root, { ...alert, kind: 'price_above', threshold_value: '99', is_enabled: false })
    for (const portfolio of ['long', 'short']) {
      const { id: at } = await made('/portfolio', root, { name: portfolio })
      const buy = { item_id: ITEM, type: 'buy', quantity: 2, price: 5, date: '2026-01-05', note: `of ${name}` }
      await made(`/portfolio/${at}/transactions`, root, buy)
      await made(`/portfolio/${at}/items`, root, { item_id: ITEM, quantity: 3 })
    }
    await scenario.database.transaction(query => writeEvent(query, id, EVENT))
    return { id, email, session, root, child, webhook }
  }

  /** How many rows each table has, but those that outlive an account. */
  async function rowsOfTables(): Promise<Record<string, number>> {
    const tables = await scenario.database.rows<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'
       AND table_name NOT IN ('audit_log', 'outbox', 'signing_keys', 'consumer_positions')`,
    )
    const counts: Record<string, number> = {}
    for (const { name } of tables) {
      const [found] = await scenario.database.rows<{ n: number }>(`SELECT count(*)::int AS n FROM ${name}`)
      counts[name] = found?.n ?? 0
    }
    return counts
  }

  describe('exported', () => {
    it('is what its routes show, whole, and opens nothing', async () => {
      const owner = await openOwner('ada')
      await scenario.database.rows(
        `INSERT INTO alerts (id, account_id, item_id, market_hash_name, kind, threshold_value, threshold_currency, is_enabled,
           version, created_at, updated_at)
         SELECT gen_random_uuid(), $1, i, 'Item', 'price_below', 1, 'USD', false, 1, now(), now() FROM generate_series(1, $2) i`,
        [owner.id, MANY],
      )
      await made(`/account/webhooks/${owner.webhook}/test`, owner.root, {})
      const state = async () => (await ask('GET', '/account/webhooks/deliveries', owner.root)).body.deliveries
      const [delivery] = await eventually(async () => {
        const all = await state()
        return all[0]?.status === 'succeeded' ? all : undefined
      }, 'the delivery')
      const { status: code, headers, body, text } = await ask('GET', '/account/export', owner.session)
      expect(code, text.slice(0, 300)).to.equal(200)
      expect(headers.get('cache-control')).to.equal('private, no-store')
      expect(text).not.to.match(SECRET)

      const { identities, ...account } = body.account
      expect(account).to.deep.equal((await ask('GET', '/account', owner.session)).body)
      expect(identities).to.have.length(1)
      expect(identities[0]).to.include({ subject: 'ada' })
      expect(body.keys.map((key: { is_active: boolean }) => key.is_active).sort()).to.deep.equal([false, true, true])
      expect(body.keys.filter((key: { revoked_at: unknown }) => key.revoked_at !== null)).to.have.length(1)
      expect(body.sessions).to.have.length(1)
      const ids = new Set(body.alerts.map(({ id }: { id: string }) => id))
      expect([body.alerts.length, ids.size]).to.deep.equal([MANY + 2, MANY + 2])
      const shown = (await ask('GET', '/account/alerts?limit=200', owner.root)).body.alerts
      expect(body.alerts).to.include.deep.members(shown)
      expect(body.events).to.deep.equal((await ask('GET', '/account/alerts/events', owner.root)).body.events)
      const [{ secret_last4: _, ...webhook }] = (await ask('GET', '/account/webhooks', owner.root)).body.webhooks
      expect(body.webhooks).to.deep.equal([webhook])
      const detail = (await ask('GET', `/account/webhooks/deliveries/${delivery.id}`, owner.root)).body
      expect(body.deliveries).to.deep.equal([detail])
      const portfolios = (await ask('GET', '/portfolio', owner.root)).body.data
      expect(portfolios).to.have.length(2)
      for (const [at, { entries, ledger, ...portfolio }] of body.portfolios.entries()) {
        expect(portfolio).to.deep.equal(portfolios[at])
        const items = (await ask('GET', `/portfolio/${portfolio.id}/items`, owner.root)).body
        expect(entries).to.have.deep.members(items)
        expect(ledger).to.deep.equal((await ask('GET', `/portfolio/${portfolio.id}/transactions`, owner.root)).body)
      }
      const kinds = body.audit_entries.map(({ kind }: { kind: string }) => kind)
      expect(kinds).to.deep.equal([
        ...['session.opened', 'key.reissued', 'child_key.created', 'webhook.created', 'account.exported'],
      ])
    })

    it('is one at a time', async () => {
      const { access_token: as } = await scenario.signInAs('ben')
      const both = await whileLocked(scenario.database, ['LOCK TABLE audit_log IN ACCESS EXCLUSIVE MODE'], async () => {
        // Of two one waits for the table, and the other need not.
        const exports = [1, 2].map(() => ask('GET', '/account/export', as))
        const refused = await Promise.race(exports)
        expect([refused.status, refused.body.code]).to.deep.equal([429, 'RATE_LIMIT_EXCEEDED'])
        return exports
      })
      expect((await Promise.all(both)).map(one => one.status).sort()).to.deep.equal([200, 429])
      expect((await ask('GET', '/account/export', as)).status, 'afterwards').to.equal(200)
    })

    it('breaks off when its session ends while it is sent', async () => {
      const { access_token: as } = await scenario.signInAs('bea')
      let text: Promise<string> | undefined
      await whileLocked(scenario.database, ['LOCK TABLE portfolios IN ACCESS EXCLUSIVE MODE'], async () => {
        text = ask('GET', '/account/export', as).then(
          answer => answer.text,
          () => 'broken off',
        )
        await eventually(async () => (await waitingForLocks(scenario.database)) > 0, 'the export to wait')
        expect((await ask('POST', '/account/session/revoke-all', as)).status).to.equal(200)
      })
      expect(await text).to.equal('broken off')
    })
  })

  describe('deleted', () => {
    it('is nothing without the address of the account, whose case does not matter', async () => {
      const owner = await openOwner('cleo')
      const before = await rowsOfTables()
      for (const confirm of ['ada@example.com', 'cleo@example.co', owner.id, '%', 'cleo@example.com ']) {
        const { status: code, body } = await remove(owner.session, confirm)
        expect([code, body.detail[0].loc], confirm).to.deep.equal([422, ['body', 'confirm']])
      }
      expect(await rowsOfTables()).to.deep.equal(before)
      expect((await remove(owner.session, 'CLEO@Example.com')).body).to.deep.equal({ ok: true })
    })

    it('is in no table, opens nothing, and leaves pseudonyms in the audit log alone', async () => {
      const other = await openOwner('dora')
      const before = await rowsOfTables()
      const owner = await openOwner('eve')
      await ask('POST', '/account/email', owner.session, { email: 'eve@elsewhere.example' })
      await ask('POST', '/account/platform', owner.session)
      const link = await scenario.linkTo('eve@elsewhere.example')
      await made('/portfolio', owner.root, { name: 'a third' })
      await made(`/account/webhooks/${owner.webhook}/test`, owner.root, {})
      const feed = await openSse(`${scenario.baseUrl}/feed/prices`, { key: owner.root })
      await feed.event(({ event }) => event === 'ready')

      expect((await remove(owner.session, owner.email)).body).to.deep.equal({ ok: true })

      expect(await rowsOfTables()).to.deep.equal(before)
      for (const as of [owner.session, owner.root, owner.child]) {
        const isRefused = async () => {
          const { status: code, body } = await ask('GET', '/account/key', as)
          return code === 401 && body.code === 'AUTH_INVALID_API_KEY'
        }
        await eventually(isRefused, 'its credentials to be refused')
      }
      await eventually(() => feed.hasEnded(), 'its stream to end')
      expect((await scenario.confirm(link)).status, 'a link that was sent').to.equal(404)
      const entries = await scenario.database.rows<{ kind: string; address: string }>(
        'SELECT kind, address FROM audit_log WHERE account_id = $1 ORDER BY id',
        [owner.id],
      )
      expect(entries.map(({ kind }) => kind)).to.deep.equal([
        ...['session.opened', 'key.reissued', 'child_key.created', 'webhook.created', 'email.change_requested'],
        'account.deleted',
      ])
      const addresses = new Set(entries.map(({ address }) => address))
      expect(addresses.size, 'one address is one pseudonym').to.equal(1)
      expect([...addresses][0]).to.match(/^~[0-9a-f]{16}$/)
      expect((await ask('GET', '/account', other.session)).status, 'another account').to.equal(200)
      expect((await ask('GET', '/account/alerts', other.root)).body.alerts).to.have.length(2)
    })

    it('leaves the log as well: a tombstone of each rule, behind all that was said of it', async () => {
      const owner = await openOwner('finn')
      const alerts = (await ask('GET', '/account/alerts', owner.root)).body.alerts.map(({ id }: { id: string }) => id)
      // Rows that still wait, and such that the log has already.
      await ask('PATCH', `/account/alerts/${alerts[0]}`, owner.root, { threshold_value: '2' })
      await remove(owner.session, owner.email)
      const isRelayed = async () => (await scenario.database.rows('SELECT FROM outbox')).length === 0
      await eventually(isRelayed, 'the outbox to be relayed')
      const kafka = platform.connect()
      await eventually(async () => {
        const rules = await readTopic(kafka, 'alertRules')
        const last = new Map(rules.map(({ key, value }) => [key, value]))
        return alerts.every((id: string) => last.has(id) && last.get(id) === undefined)
      }, 'the tombstones')
    })

    it('is confirmed by its id where it has no address', async () => {
      const { access_token: as } = await scenario.signInAs('gus', {})
      const { id } = (await ask('GET', '/account', as)).body
      expect((await remove(as, 'gus@example.com')).status).to.equal(422)
      expect((await remove(as, id.toUpperCase())).body).to.deep.equal({ ok: true })
    })

    it('is another account after the next sign-in of the same person, whose limits go on', async () => {
      const { access_token: first } = await scenario.signInAs('hal')
      const { key } = await made('/account/key/reissue', first, {})
      for (let i = 0; i < 3; i++) await ask('GET', '/providers', key)
      const remaining = async (as: string) =>
        (await ask('GET', '/account/key', as)).headers.get('x-ratelimit-remaining')
      const { id } = (await ask('GET', '/account', first)).body
      const left = await remaining(key)
      await remove(first, 'hal@example.com')
      const { access_token: again } = await scenario.signInAs('hal')
      const account = (await ask('GET', '/account', again)).body
      expect(account.id).not.to.equal(id)
      expect(await remaining((await made('/account/key/reissue', again, {})).key)).to.equal(left)
      const [root] = await scenario.database.rows<{ lineage_id: string }>(
        `SELECT lineage_id FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL`,
        [account.id],
      )
      const redis = await platform.openRedis()
      const month = new Date().toISOString().slice(0, 7)
      expect(await redis.get(monthKey(root?.lineage_id ?? '', month, platform.namespace))).to.equal('3')
    })

    it('while its webhook is called and its events wait: the call ends by itself, and none follows', async () => {
      const owner = await openOwner('ida')
      let answer: (() => void) | undefined
      receiver.answerWith(response => {
        answer = () => void response.writeHead(500).end()
      })
      await made(`/account/webhooks/${owner.webhook}/test`, owner.root, {})
      const calls = () => receiver.received.filter(({ path }) => path === '/ida').length
      await eventually(() => calls() === 1 && answer !== undefined, 'the call')
      expect((await remove(owner.session, owner.email)).status).to.equal(200)
      receiver.answerWith(status(200))
      answer?.()
      // What comes after it: the destination of another account is served.
      const other = await openOwner('jon')
      await made(`/account/webhooks/${other.webhook}/test`, other.root, {})
      await eventually(() => receiver.received.some(({ path }) => path === '/jon'), 'the next delivery')
      const jobs = () =>
        scenario.database.rows('SELECT FROM graphile_worker.jobs WHERE key = $1', [`webhook:${owner.webhook}`])
      await eventually(async () => (await jobs()).length === 0, 'its job to end')
      expect(calls()).to.equal(1)
      for (const table of ['webhook_health', 'webhook_deliveries']) {
        const rows = await scenario.database.rows(`SELECT FROM ${table} WHERE endpoint_id = $1`, [owner.webhook])
        expect(rows, table).to.deep.equal([])
      }
      expect(scenario.roles.failures).to.deep.equal([])
    })

    it('while writes for it are under way, each of which ends with a described answer', async () => {
      const owner = await openOwner('kai')
      const { id } = (await ask('GET', '/portfolio', owner.root)).body.data[0]
      const buy = { item_id: ITEM, type: 'buy', quantity: 1, price: 5, date: '2026-01-05' }
      const alert = { item_id: ITEM, kind: 'price_below', threshold_value: '3', is_enabled: false }
      const write = (i: number) =>
        [
          () => ask('POST', `/portfolio/${id}/transactions`, owner.root, buy),
          () => ask('POST', '/portfolio', owner.root, { name: `n${i}` }),
          () => ask('POST', '/account/alerts', owner.root, alert),
          () => ask('POST', '/account/key/reissue', owner.session),
          () => ask('POST', '/account/webhooks', owner.session, { label: 'x', url: 'https://bot.example.com/' }),
          () => ask('POST', '/account/platform', owner.session),
          () => scenario.signInAs('kai').then(() => undefined),
        ][i % 7]?.()
      const writes = Array.from({ length: 28 }, (_, i) => write(i))
      let removed = await remove(owner.session, owner.email)
      for (let i = 0; removed.status === 503 && i < 5; i++) removed = await remove(owner.session, owner.email)
      expect(removed.status, removed.text).to.equal(200)
      for (const answer of await Promise.all(writes)) expect(answer?.status ?? 200, answer?.text).to.be.below(500)
      const left = await scenario.database.rows('SELECT FROM portfolios WHERE account_id = $1', [owner.id])
      expect(left).to.deep.equal([])
    })
  })
})
