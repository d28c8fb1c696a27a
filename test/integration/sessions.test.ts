import { createHmac, createPublicKey, generateKeyPairSync, type JsonWebKey, sign, verify } from 'node:crypto'
import { expect } from 'chai'
import { newSecretKey, openSealedBox } from '#infra/runtime/sealed-box.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { openSessions } from '#services/accounts/sessions/commands.ts'
import { openSigningKeys } from '#services/accounts/sessions/signing-keys.ts'
import { openBrowser } from '#test/fixtures/browser.ts'
import { openSignInScenario, type SignInScenario, type Tokens } from '#test/fixtures/sign-in-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

type Json = Record<string, unknown>

const decode = (part: string): Json => JSON.parse(Buffer.from(part, 'base64url').toString())
const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

const uncounted = async () => () => undefined

function partsOf(token: string) {
  const [header = '', claims = '', signature = ''] = token.split('.')
  return { header: decode(header), claims: decode(claims), signed: `${header}.${claims}`, signature }
}

describe('sessions', () => {
  const platform = useServers()
  let scenario: SignInScenario
  let tokens: Tokens
  let signedInAt: number
  before('a provider and the API', async () => {
    scenario = await openSignInScenario(platform)
  })
  after('end of the scenario', () => scenario.close())
  beforeEach(async () => {
    signedInAt = Math.floor(Date.now() / 1000)
    tokens = await scenario.signInAs('ada')
  })

  const statusOf = async (as: string, path = '/v1/account'): Promise<[number, string | undefined]> => {
    const { status, body } = await scenario.ask(path, { as })
    return [status, body.code]
  }
  const refresh = (refresh_token: string) =>
    scenario.ask('/v1/account/session/refresh', { method: 'POST', body: { refresh_token } })

  describe('access tokens', () => {
    it('are good for 15 minutes, name account and session, and fit the published keys', async () => {
      const { header, claims, signed, signature } = partsOf(tokens.access_token)
      const account = (await scenario.ask('/v1/account', { as: tokens.access_token })).body
      expect(claims).to.include({ sub: account.id, iss: scenario.baseUrl, aud: 'marketlog-account' })
      expect(Number(claims.exp) - Number(claims.iat)).to.equal(900)
      expect(claims.iat).to.be.within(signedInAt, Date.now() / 1000)
      expect(Object.keys(claims).sort()).to.deep.equal(['aud', 'exp', 'iat', 'iss', 'sid', 'sub'])
      for (const root of ['', '/v1']) {
        const { body } = await scenario.ask(`${root}/.well-known/jwks.json`)
        const key = body.keys.find(({ kid }: Json) => kid === header.kid) as JsonWebKey
        expect(key).not.to.have.property('d')
        const isGood = verify(
          'sha256',
          Buffer.from(signed),
          { key: createPublicKey({ key, format: 'jwk' }), dsaEncoding: 'ieee-p1363' },
          Buffer.from(signature, 'base64url'),
        )
        expect(isGood, 'by the published key alone').to.equal(true)
      }
    })

    it('that were forged, altered or borrowed are refused', async () => {
      const { header, claims, signed, signature } = partsOf(tokens.access_token)
      const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
      const [published] = (await scenario.ask('/v1/.well-known/jwks.json')).body.keys as JsonWebKey[]
      const pem = createPublicKey({ key: published as JsonWebKey, format: 'jwk' }).export({
        type: 'spki',
        format: 'pem',
      })
      const signedBy = (head: Json, body: Json) => {
        const text = `${encode(head)}.${encode(body)}`
        const bytes = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' })
        return `${text}.${bytes.toString('base64url')}`
      }
      const later = { ...claims, exp: Number(claims.exp) + 9_999 }
      const hmac = `${encode({ ...header, alg: 'HS256' })}.${encode(claims)}`
      const forged: Record<string, string> = {
        'no algorithm': `${encode({ alg: 'none' })}.${encode(claims)}.`,
        'no algorithm, old signature': `${encode({ alg: 'none', kid: header.kid })}.${encode(claims)}.${signature}`,
        'a later expiry': `${signed.split('.')[0]}.${encode(later)}.${signature}`,
        'the public key as a shared secret': `${hmac}.${createHmac('sha256', pem).update(hmac).digest('base64url')}`,
        'a key of its own under our id': signedBy(header, claims),
        'a key of its own in its header': signedBy({ ...header, jwk: publicKey.export({ format: 'jwk' }) }, claims),
        'a key of its own at its address': signedBy({ ...header, kid: 'other', jku: 'http://127.0.0.1:1/' }, claims),
        'a strange key id': signedBy({ ...header, kid: "' OR 1=1 --" }, claims),
        'another signature': `${signed}.${Buffer.alloc(64, 7).toString('base64url')}`,
        'half of it': tokens.access_token.slice(0, -40),
      }
      for (const [name, token] of Object.entries(forged)) {
        expect(await statusOf(token), name).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
      }
      expect((await statusOf(tokens.access_token))[0]).to.equal(200)
    })

    it('open account routes and no market data', async () => {
      expect(await statusOf(tokens.access_token, '/v1/fx')).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
      expect(await statusOf(tokens.access_token, '/v1/account/key')).to.deep.equal([200, undefined])
    })

    it('expire after 15 minutes, by the clock of the platform', async () => {
      let time = Date.UTC(2031, 5, 1)
      const keys = openSigningKeys(scenario.database, openSealedBox(newSecretKey()))
      const sessions = openSessions({ database: scenario.database, keys, issuer: 'https://a.example', now: () => time })
      const { body: account } = await scenario.ask('/v1/account', { as: tokens.access_token })
      const { access_token: token } = await sessions.open(async () => account.id, time)
      const accepted = async (by = sessions) => (await by.authenticate(token, uncounted)).accepted
      time += 899_000
      expect(await accepted()).to.equal(true)
      const scope = { database: scenario.database, keys, issuer: 'https://b.example', now: () => time }
      expect(await accepted(openSessions(scope)), 'by another issuer').to.equal(false)
      time += 1_000
      expect(await accepted()).to.equal(false)
    })

    it('end within a second where another process has ended them, and at once here', async () => {
      const keys = openSigningKeys(scenario.database, openSealedBox(newSecretKey()))
      const scope = { database: scenario.database, keys, issuer: 'https://a.example', now: Date.now }
      const [here, there] = [openSessions(scope), openSessions(scope)]
      const { body: account } = await scenario.ask('/v1/account', { as: tokens.access_token })
      const origin = { accountId: account.id, keyId: crypto.randomUUID() }
      for (const end of [
        (sessionId: string) => here.revoke({ accountId: account.id, sessionId }, Date.now()),
        () => here.revokeAll(origin, Date.now()),
      ]) {
        const { access_token: token } = await here.open(async () => account.id, Date.now())
        const accepted = async (by: typeof here) => (await by.authenticate(token, uncounted)).accepted
        for (const by of [here, there]) expect(await accepted(by)).to.equal(true)
        await end(String(partsOf(token).claims.sid))
        expect(await accepted(here)).to.equal(false)
        await eventually(async () => !(await accepted(there)), 'the end of the session in the other process', 10_000)
      }
    })

    it('end with their session, and with their account', async () => {
      const out = await scenario.ask('/v1/account/session', { method: 'DELETE', as: tokens.access_token })
      expect([out.status, out.body]).to.deep.equal([200, { ok: true }])
      expect(await statusOf(tokens.access_token)).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
      expect((await refresh(tokens.refresh_token)).body.code).to.equal('AUTH_INVALID_SESSION')
      const next = await scenario.signIn(openBrowser({ 'x-person': 'ada' }))
      await scenario.database.rows('UPDATE accounts SET disabled_at = now()')
      expect(await statusOf(next.access_token)).to.deep.equal([403, 'AUTH_ACCOUNT_DISABLED'])
      await scenario.database.rows('UPDATE accounts SET disabled_at = NULL')
    })
  })

  describe('refresh tokens', () => {
    it('are replaced by each use', async () => {
      const seen = new Set([tokens.refresh_token])
      let current = tokens
      for (let round = 0; round < 4; round++) {
        const { status, body } = await refresh(current.refresh_token)
        expect(status).to.equal(200)
        expect(seen.has(body.refresh_token)).to.equal(false)
        seen.add(body.refresh_token)
        current = body
        expect((await statusOf(current.access_token))[0]).to.equal(200)
      }
      expect(partsOf(current.access_token).claims.sid).to.equal(partsOf(tokens.access_token).claims.sid)
    })

    it('of which one is used twice end the whole session, at once', async () => {
      const { body: next } = await refresh(tokens.refresh_token)
      const other = await scenario.signIn(openBrowser({ 'x-person': 'ada' }))
      expect((await refresh(tokens.refresh_token)).body.code).to.equal('AUTH_INVALID_SESSION')
      expect((await refresh(next.refresh_token)).body.code, 'the newest too').to.equal('AUTH_INVALID_SESSION')
      expect(await statusOf(next.access_token)).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
      expect((await statusOf(other.access_token))[0], 'another session of the account').to.equal(200)
    })

    it('used by many at once serve one at most, and the session ends', async () => {
      const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(tokens.refresh_token)))
      const served = answers.filter(({ status }) => status === 200)
      expect(served).to.have.length(1)
      expect((await refresh(served[0]?.body.refresh_token)).status).to.equal(401)
    })

    it('that are none, or whose session has expired, are refused', async () => {
      for (const text of ['x', 'refresh_', `refresh_${'A'.repeat(43)}`, tokens.access_token.slice(0, 90)]) {
        expect((await refresh(text)).body.code, text).to.equal('AUTH_INVALID_SESSION')
      }
      await scenario.database.rows(`UPDATE sessions SET expires_at = now() - interval '1 second'`)
      expect((await refresh(tokens.refresh_token)).body.code).to.equal('AUTH_INVALID_SESSION')
      expect(await statusOf(tokens.access_token)).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
    })
  })

  describe('signing keys', () => {
    const start = Date.UTC(2030, 0, 1)

    it('are drawn once however many ask, and rotate daily; old ones stay published for longer than their tokens live', async () => {
      const box = openSealedBox(newSecretKey())
      const open = () => openSigningKeys(scenario.database, box)
      const first = await Promise.all(Array.from({ length: 6 }, () => open().current(start)))
      expect(new Set(first.map(({ id }) => id)).size).to.equal(1)
      const [old] = first
      expect((await open().current(start + DAY_MS - 1)).id).to.equal(old?.id)
      const next = await open().current(start + DAY_MS)
      expect(next.id).not.to.equal(old?.id)
      const kept = open()
      const isPublished = async (at: number) => (await kept.published(at)).some(({ kid }) => kid === old?.id)
      expect(await isPublished(start + DAY_MS + 15 * MINUTE_MS)).to.equal(true)
      expect(await isPublished(start + 26 * HOUR_MS)).to.equal(false)
      expect(await kept.publicKeyOf(old?.id as string, start + 26 * HOUR_MS + 2_000)).to.equal(undefined)
    })

    it('cannot be read from the database, and another key of the environment draws another', async () => {
      const secret = newSecretKey()
      const key = await openSigningKeys(scenario.database, openSealedBox(secret)).current(start + 40 * DAY_MS)
      const stored = JSON.stringify(await scenario.database.rows('SELECT * FROM signing_keys'))
      expect(stored).to.include(key.id)
      expect(stored).not.to.include(key.privateKey.d as string)
      const other = await openSigningKeys(scenario.database, openSealedBox(newSecretKey())).current(start + 40 * DAY_MS)
      expect(other.id).not.to.equal(key.id)
    })

    it('are known to the process that drew them at once; within a second of a look-up it used to refuse its own tokens', async () => {
      const keys = openSigningKeys(scenario.database, openSealedBox(newSecretKey()))
      const now = start + 80 * DAY_MS
      expect(await keys.publicKeyOf('of nobody', now)).to.equal(undefined)
      const { id, publicKey } = await keys.current(now)
      expect(await keys.publicKeyOf(id, now)).to.deep.equal(publicKey)
    })
  })

  describe('platform links', () => {
    const ID = '70000000000000042'
    const begin = (platformId = ID) => scenario.departToPlatform(tokens.access_token, platformId)
    const linked = async () => (await scenario.ask('/v1/account', { as: tokens.access_token })).body.platform_id
    const refused = async (url: string, browser = openBrowser()) => {
      const { status, body } = await scenario.ask(url, { browser })
      expect([status, body.code], url).to.deep.equal([403, 'SIGN_IN_REFUSED'])
    }

    it('are made by signing in there, replaced, and taken back', async () => {
      const first = await begin()
      const answer = await scenario.ask(first.back, { browser: first.browser })
      expect(answer.body).to.include({ ok: true, platform_id: ID })
      expect(await linked()).to.equal(ID)
      const second = await begin('70000000000000043')
      await scenario.ask(second.back, { browser: second.browser })
      const rows = await scenario.database.rows('SELECT platform_id FROM platform_links')
      expect(rows).to.deep.equal([{ platform_id: '70000000000000043' }])
      const unlink = () => scenario.ask('/v1/account/platform', { method: 'DELETE', as: tokens.access_token })
      expect((await unlink()).status).to.equal(200)
      expect(await linked()).to.equal(null)
      expect((await unlink()).status).to.equal(404)
    })

    it('come from the platform alone: what is altered, replayed or brought by a stranger links nothing', async () => {
      const { browser, back } = await begin()
      await refused(back)
      await scenario.ask(back, { browser })
      await refused(back, browser)
      const alter = async (name: string, value: (text: string) => string) => {
        const next = await begin()
        const url = new URL(next.back)
        url.searchParams.set(name, value(url.searchParams.get(name) ?? ''))
        await refused(url.href, next.browser)
      }
      await scenario.ask('/v1/account/platform', { method: 'DELETE', as: tokens.access_token })
      const other = (text: string) => text.replace(ID, '70000000000000099')
      await alter('openid.claimed_id', other)
      await alter('openid.identity', other)
      await alter('openid.claimed_id', () => `https://elsewhere.example/openid/id/${ID}`)
      await alter('openid.op_endpoint', () => 'https://elsewhere.example/openid/login')
      await alter('openid.return_to', text => `${text}&more=1`)
      await alter('openid.response_nonce', text => text.replace(/^\d{4}/, '2001'))
      await alter('openid.signed', () => 'return_to,response_nonce')
      await alter('openid.sig', () => 'AAAA')
      await alter('openid.mode', () => 'cancel')
      await alter('state', text => text.split('').reverse().join(''))
      expect(await linked()).to.equal(null)
    })

    it('cannot be forged with both ids changed: the platform does not confirm them', async () => {
      const { browser, back } = await begin()
      const before = scenario.platform.confirmations
      await refused(back.replaceAll(ID, '70000000000000099'), browser)
      expect(scenario.platform.confirmations).to.equal(before + 1)
      expect(await linked()).to.equal(null)
    })

    it('are a 502 while the platform does not answer', async () => {
      const { browser, back } = await begin()
      scenario.platform.isDown = true
      const lost = await scenario.ask(back, { browser }).finally(() => {
        scenario.platform.isDown = false
      })
      expect([lost.status, lost.body.code]).to.deep.equal([502, 'UPSTREAM_ERROR'])
    })
  })
})
