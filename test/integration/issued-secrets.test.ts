/**
 * A full run of everything that issues keys, tokens and secrets, and then a search for each of them where none may be:
 * log lines, errors, metrics, and a dump of the database and of Redis.
 */
import { expect } from 'chai'
import type { Database } from '#infra/postgres/pool.ts'
import { scanKeys } from '#infra/redis/servers.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { type AlertMarket, openAlertMarket } from '#test/fixtures/alert-market.ts'
import { type Browser, openBrowser, type Page } from '#test/fixtures/browser.ts'
import { openTestIdentityProvider, type TestIdentityProvider } from '#test/fixtures/identity-provider.ts'
import { type Mailbox, openMailbox } from '#test/fixtures/mailbox.ts'
import { openTestPlatform, type TestPlatformProvider } from '#test/fixtures/platform-provider.ts'
import { openReceiver, type Receiver } from '#test/fixtures/webhook-receiver.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { openSse } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy } from '#test/harness/wire-proxy.ts'

const ROLES = 'api feed alerts alert-triggers'
const ITEM = 4940

describe('issued keys, tokens and secrets', () => {
  const platform = useServers()
  /** What was issued, by what it is. */
  const issued = new Map<string, string>()
  const errors: string[] = []
  const open: { close(): unknown }[] = []
  let provider: TestIdentityProvider
  let mailbox: Mailbox
  let game: TestPlatformProvider
  let receiver: Receiver
  let market: AlertMarket
  let database: Database
  let process: SpawnedRole
  let baseUrl: string
  let operatorUrl: string
  let browser: Browser
  let metrics: string

  before('a platform as a process of its own that logs everything', async () => {
    database = platform.database
    provider = keep(await openTestIdentityProvider({ emailInToken: true }))
    mailbox = keep(await openMailbox())
    game = keep(await openTestPlatform())
    receiver = keep(await openReceiver())
    market = keep(await openAlertMarket(platform.connect()))
    await market.rates({ EUR: '0.9' })
    // The public root must be known before the process listens.
    const front = keep(await openWireProxy())
    baseUrl = `http://127.0.0.1:${front.port}`
    process = await platform.spawnRole(ROLES, {
      LOG_LEVEL: 'trace',
      BASE_URL: baseUrl,
      MARKETLOG_OIDC_URL: provider.url,
      MARKETLOG_OIDC_CLIENT_ID: provider.clientId,
      MARKETLOG_OIDC_CLIENT_SECRET: provider.clientSecret,
      MARKETLOG_PLATFORM_OPENID_URL: game.endpoint,
      MARKETLOG_SMTP_URL: mailbox.url,
      MARKETLOG_WEBHOOK_ALLOW: `127.0.0.1:${receiver.port}`,
    })
    front.forwardTo(Number(new URL(await process.baseUrl()).port))
    operatorUrl = await process.operatorUrl()
    await eventually(async () => (await fetch(`${operatorUrl}/readyz`)).ok, 'all roles to be ready')
    provider.register(`${baseUrl}/v1/account/callback`)
    provider.people.set('ada', { email: 'ada@example.com', email_verified: false })
    browser = openBrowser({ 'x-person': 'ada', 'x-platform-id': '70000000000000042' })
  })
  after(async () => {
    for (const one of open.reverse()) await one.close()
  })

  function keep<T extends { close(): unknown }>(one: T): T {
    open.push(one)
    return one
  }

  function note(what: string, text: unknown): string {
    expect(text, what).to.be.a('string')
    expect(String(text).length, what).to.be.greaterThan(15)
    issued.set(what, String(text))
    return String(text)
  }

  async function ask(method: string, path: string, as?: string, body?: unknown): Promise<Page> {
    const page = await browser.send(path.startsWith('http') ? path : `${baseUrl}${path}`, {
      method,
      headers: {
        ...(as !== undefined && { authorization: `Bearer ${as}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    expect(page.status, `${method} ${path.split('?')[0]}\n${process.lines().slice(-5).join('\n')}`).not.to.equal(500)
    if (page.status >= 400) errors.push(page.text)
    return page
  }

  it('come out of sign-in, verification and sessions', async () => {
    const back = await browser.open(`${baseUrl}/v1/account/login`, url => url.startsWith(`${baseUrl}/v1/account/call`))
    const returned = new URL(back.url).searchParams
    note('state of the sign-in', returned.get('state'))
    note('code of the provider', returned.get('code'))
    note('cookie of the sign-in', browser.cookies.get(baseUrl)?.get('marketlog_sign_in'))
    note('secret at the provider', provider.clientSecret)
    const { body } = await ask('GET', back.url)
    const session = await ask('POST', '/v1/account/session', undefined, {
      code: note('code of the sign-in', body.code),
    })
    note('first access token', session.body.access_token)
    const first = note('first refresh token', session.body.refresh_token)
    const next = await ask('POST', '/v1/account/session/refresh', undefined, { refresh_token: first })
    note('access token', next.body.access_token)
    note('refresh token', next.body.refresh_token)
    const mail = await mailbox.mailTo('ada@example.com')
    const link = /http\S+token=(\S+)/.exec(mail.text ?? '') as RegExpExecArray
    note('token of the verification mail', link[1])
    expect((await ask('GET', link[0] as string)).status).to.equal(200)
    expect((await ask('POST', link[0] as string)).status).to.equal(200)
    const begun = await ask('POST', '/v1/account/platform', next.body.access_token)
    note('cookie of the platform link', browser.cookies.get(baseUrl)?.get('marketlog_platform'))
    const linked = await browser.open(begun.body.url)
    expect(linked.body.platform_id).to.equal('70000000000000042')
    note('state of the platform link', new URL(linked.url).searchParams.get('state'))
  })

  it('come out of keys and webhooks, and are used: by requests, feeds, deliveries and mails', async () => {
    const session = issued.get('access token') as string
    await database.rows(`UPDATE accounts SET tier = 'quant' WHERE email = 'ada@example.com'`)
    const root = note('root key', (await ask('POST', '/v1/account/key/reissue', session)).body.key)
    const child = await ask('POST', '/v1/account/sub-keys', root, { name: 'child' })
    note('child key', child.body.key)
    const path = `/v1/account/sub-keys/${child.body.key_info.id}/reissue`
    const again = note('reissued child key', (await ask('POST', path, root)).body.key)
    const made = await createAccountWithKey(database, { tier: 'quant' })
    note('key of the command line', made.key)
    const hook = await ask('POST', '/v1/account/webhooks', root, { label: 'hook', url: `${receiver.url}/hook` })
    expect(hook.status, hook.text).to.equal(201)
    note('first webhook secret', hook.body.secret)
    const rotated = await ask('POST', `/v1/account/webhooks/${hook.body.webhook.id}/rotate-secret`, root)
    note('webhook secret', rotated.body.secret)
    const feed = keep(await openSse(`${baseUrl}/feed/prices`, { key: again }))
    await feed.event(({ event }) => event === 'ready')
    const alert = { item_id: ITEM, kind: 'price_below', threshold_value: '50.00', threshold_currency: 'USD' }
    expect((await ask('POST', '/v1/account/alerts', root, alert)).status).to.equal(201)
    await eventually(async () => (await database.rows('SELECT FROM outbox')).length === 0, 'the rule to be in the log')
    await market.move([{ side: 'ask', provider: 'provider_02', itemId: ITEM, micro: 20_000_000 }])
    await eventually(() => receiver.received.length > 0, 'the delivery')
    const unsubscribeOf = ({ mail }: Mailbox['mails'][number]) =>
      mail.headers.find(({ key }) => key === 'list-unsubscribe')?.value
    const header = await eventually(() => mailbox.mails.map(unsubscribeOf).find(Boolean), 'the mail of the alert')
    note('token of the unsubscribe link', /token=([\w-]+)/.exec(header)?.[1])
  })

  it('are used wrongly, in every field that a client may mistake for the right one', async () => {
    const [root, child] = [issued.get('root key') as string, issued.get('reissued child key') as string]
    const refresh = issued.get('refresh token') as string
    const before = errors.length
    await ask('POST', '/v1/account/session/refresh', undefined, { refresh_token: issued.get('first refresh token') })
    await ask('POST', '/v1/account/session/refresh', undefined, { refreshtoken: refresh, refresh_token: refresh })
    await ask('POST', '/v1/account/session/refresh', undefined, { refresh_token: [refresh], token: { of: [refresh] } })
    await ask('POST', '/v1/account/session', undefined, { code: issued.get('code of the sign-in') })
    await ask('POST', '/v1/account/session', undefined, `{"code": "${issued.get('code of the sign-in')}`)
    await ask('GET', `/v1/prices?api_key=${root}&limit=${root}&currency=${root}`, root)
    await ask('GET', `/v1/prices/${root}`)
    await ask('GET', `/v1/account/sub-keys/${child}`, root)
    await ask('GET', '/v1/account/sub-keys', child)
    await ask('GET', '/v1/account/key', issued.get('child key'))
    await ask('GET', '/v1/account/key', `${root}x`)
    await ask('GET', '/v1/fx', issued.get('access token'))
    await ask('PATCH', '/v1/account/sub-keys/x', root, { name: 'x', key: child })
    const hook = { label: 'x', url: 'https://example.com', secret: issued.get('webhook secret') }
    await ask('POST', '/v1/account/webhooks', root, hook)
    await ask('POST', `/v1/account/email/verify?token=${issued.get('token of the verification mail')}`)
    await ask('GET', `/feed/prices?key=${root}&providers=${root}`, root)
    await ask('GET', `/feed/prices?token=${root}`, child.slice(0, -1))
    await browser.send(`${baseUrl}/v1/fx`, {
      headers: { authorization: `Basic ${Buffer.from(root).toString('base64')}` },
    })
    await browser.send(`${baseUrl}/v1/fx`, { headers: { 'x-request-id': root, 'user-agent': root, referer: root } })
    expect(errors.length - before).to.be.greaterThan(13)
  })

  it('are in no log line, no error, no metric, and in no table or key that is stored', async () => {
    await ask('POST', '/v1/account/key/reissue', issued.get('root key'))
    metrics = await (await fetch(`${operatorUrl}/metrics`)).text()
    await process.stop()
    const places: Record<string, string> = {
      log: process.lines().join('\n'),
      errors: errors.join('\n'),
      metrics,
      database: await dumpOfDatabase(),
      redis: await dumpOfRedis(),
    }
    // Each place holds what it should, so the search can find something.
    expect(places.log).to.include('"answered"').and.to.include('/account/sub-keys')
    expect(process.lines().length).to.be.greaterThan(100)
    expect(places.errors).to.include('extra_forbidden').and.to.include('[cut]')
    expect(places.metrics).to.include('api_request_seconds').and.to.include('/account/key')
    expect(places.database).to.include('ada@example.com').and.to.include('graphile_worker')
    expect(places.redis).to.include('requests:')
    for (const [what, text] of issued) {
      for (const form of formsOf(text)) {
        for (const [place, content] of Object.entries(places)) {
          const at = content.indexOf(form)
          const around = content.slice(Math.max(0, at - 120), at + 20)
          expect(at, `${what} in ${place}: ${around}`).to.equal(-1)
        }
      }
    }
  })

  /** A text as it is, and as it would look after an encoding; prefixes are no secret. */
  function formsOf(text: string): string[] {
    const secret = text.replace(/^(sk_live_(root|child)|whsec|refresh|code|verify)_/, '')
    // The first two parts of a token are ids alone; the third is the secret.
    const part = secret.split('.').at(-1) as string
    const bytes = Buffer.from(part)
    return [part, bytes.toString('base64').replace(/=+$/, ''), bytes.toString('base64url'), bytes.toString('hex')]
  }

  async function dumpOfDatabase(): Promise<string> {
    const tables = await database.rows<{ name: string }>(
      `SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
       WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE' ORDER BY 1`,
    )
    const parts: string[] = []
    for (const { name } of tables) {
      const rows = await database.rows<{ row: string }>(`SELECT row_to_json(t)::text AS row FROM ${name} t`)
      parts.push(name, ...rows.map(({ row }) => row))
    }
    return parts.join('\n')
  }

  async function dumpOfRedis(): Promise<string> {
    const { config } = platform
    const redis = await platform.openRedis()
    const parts: string[] = []
    for await (const keys of scanKeys(redis, `${config.namespace}*`, 1_000)) {
      for (const key of keys) {
        parts.push(key)
        const type = await redis.type(key)
        if (type === 'string') parts.push((await redis.get(key)) ?? '')
        if (type === 'hash') parts.push(JSON.stringify(await redis.hgetall(key)))
        if (type === 'zset') parts.push((await redis.zrange(key, '0', '-1')).join(' '))
      }
    }
    return parts.join('\n')
  }
})
