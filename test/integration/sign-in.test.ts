import { expect } from 'chai'
import { type Browser, openBrowser } from '#test/fixtures/browser.ts'
import { openSignInScenario, type SignInScenario } from '#test/fixtures/sign-in-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { waitingForLocks, whileLocked } from '#test/harness/while-locked.ts'

describe('sign-in', () => {
  const platform = useServers()
  let scenario: SignInScenario
  before('a provider, a mail server and the API', async () => {
    scenario = await openSignInScenario(platform)
  })
  after('end of the scenario', () => scenario.close())

  const refusedWith = async (url: string, browser: Browser, code: string): Promise<void> => {
    const { status, body, text } = await scenario.ask(url, { browser })
    expect([status, body?.code], text).to.deep.equal([status, code])
  }
  const begin = (browser: Browser) => scenario.depart(browser)
  const signInAs = async (name: string, email_verified = true): Promise<string> =>
    (await scenario.signInAs(name, { email: `${name}@example.com`, email_verified })).access_token
  const change = (as: string, email: string) =>
    scenario.ask('/v1/account/email', { method: 'POST', as, body: { email } })

  it('makes an account whose address the provider vouches for, and issues its first key', async () => {
    const browser = scenario.personOf('ada')
    const { access_token, expires_in } = await scenario.signIn(browser)
    expect(expires_in).to.equal(900)
    const account = await scenario.ask('/v1/account', { as: access_token })
    expect(account.body).to.include({ tier: 'free', email: 'ada@example.com', email_verified: true, platform_id: null })
    const issued = await scenario.ask('/v1/account/key/reissue', { method: 'POST', as: access_token })
    expect(issued.status, issued.text).to.equal(200)
    const own = await scenario.ask('/v1/account/key', { as: issued.body.key })
    expect(own.body.key).to.include({ id: issued.body.id, is_root_key: true, is_active: true })
    const seen = await scenario.ask('/v1/account/key', { as: access_token })
    expect(seen.body.key.id, 'a session stands for the active root key').to.equal(issued.body.id)
    expect(scenario.mailbox.mails.filter(({ to }) => to.includes('ada@example.com'))).to.have.length(0)
  })

  it('goes on while searches and writes of others wait for all connections that they have', async () => {
    // Alerts, their searches and sign-in used to share eight connections.
    const busy = (await platform.newKey('quant')) as string
    const alert = { kind: 'price_below', item_id: 1, threshold_value: '1', is_enabled: false }
    // A wait for a lock has a limit, after which these wait again: they are served when the table is free, and no sooner.
    const other = async (_: unknown, i: number) => {
      for (;;) {
        const { status } = await (i % 2 === 0
          ? scenario.ask('/v1/account/alerts?search=AK', { as: busy })
          : scenario.ask('/v1/account/alerts', { method: 'POST', as: busy, body: alert }))
        if (status !== 503) return status
      }
    }
    const lock = 'LOCK TABLE alerts IN ACCESS EXCLUSIVE MODE'
    const others = await whileLocked(scenario.database, [lock], async () => {
      const waiting = Array.from({ length: 16 }, other)
      await eventually(async () => (await waitingForLocks(scenario.database, 'api')) >= 14, 'the others to wait')
      expect(await signInAs('kim')).to.be.a('string')
      return waiting
    })
    expect(new Set(await Promise.all(others))).to.deep.equal(new Set([200, 201]))
  })

  it('finds the same account at the next sign-in, also when two come at once', async () => {
    const tokens = await Promise.all([1, 2, 3].map(() => scenario.signInAs('eve')))
    tokens.push(await scenario.signInAs('eve', { email: 'eve@elsewhere.example', email_verified: true }))
    const accounts = await Promise.all(tokens.map(({ access_token: as }) => scenario.ask('/v1/account', { as })))
    expect(new Set(accounts.map(({ body }) => body.id)).size).to.equal(1)
    expect(accounts.at(-1)?.body.email, 'a verified address stays').to.equal('eve@example.com')
  })

  it('sends a mail when the provider vouches for nothing; its button works once and opens the way to a key', async () => {
    const browser = scenario.personOf('bob', { email: 'bob@example.com', email_verified: false })
    const { access_token: as } = await scenario.signIn(browser)
    const unverified = { email: 'bob@example.com', email_verified: false }
    expect((await scenario.ask('/v1/account', { as })).body).to.include(unverified)
    const early = await scenario.ask('/v1/account/key/reissue', { method: 'POST', as })
    expect([early.status, early.body.code]).to.deep.equal([403, 'EMAIL_NOT_VERIFIED'])
    const link = await scenario.linkTo('bob@example.com')
    expect((await scenario.mailbox.mailTo('bob@example.com')).html).to.include(link)
    const [confirmed, again] = [await scenario.confirm(link), await scenario.confirm(link)]
    expect([confirmed.status, again.status, again.body.code]).to.deep.equal([200, 404, 'NOT_FOUND'])
    expect((await scenario.ask('/v1/account', { as })).body.email_verified).to.equal(true)
    expect((await scenario.ask('/v1/account/key/reissue', { method: 'POST', as })).status).to.equal(200)
    await scenario.signIn(browser)
    expect(scenario.mailbox.mails.filter(({ to }) => to.includes('bob@example.com'))).to.have.length(1)
  })

  it('opens a page that changes nothing by the link of a mail, as scanners of mails open it', async () => {
    const as = await signInAs('ben', false)
    const link = await scenario.linkTo('ben@example.com')
    const isVerified = async () => (await scenario.ask('/v1/account', { as })).body.email_verified
    for (const method of ['GET', 'HEAD', 'GET']) {
      const { status, headers, text } = await scenario.ask(link, { method })
      expect([status, headers.get('content-type')]).to.deep.equal([200, 'text/html; charset=utf-8'])
      expect(headers.get('referrer-policy')).to.equal('no-referrer')
      expect(headers.get('cache-control')).to.equal('private, no-store')
      expect(headers.get('content-security-policy')?.split('; ').sort()).to.deep.equal([
        ...["base-uri 'none'", "default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"],
      ])
      expect(text).not.to.match(/<script|<style|<link|\bon\w+=|\bsrc=|http-equiv/i)
      expect(await isVerified(), `after ${method}`).to.equal(false)
    }
    for (const cut of [link.slice(0, -1), `${link}%22%3E%3Cscript%3E`, link.slice(0, link.indexOf('?'))]) {
      const refused = await scenario.ask(cut)
      expect([refused.status, refused.body.code], cut).to.deep.equal([422, 'VALIDATION_ERROR'])
    }
    expect((await scenario.confirm(link)).status).to.equal(200)
    expect(await isVerified()).to.equal(true)
  })

  it('sends an owner the mail that others have asked for to the same address all day', async () => {
    // Five mails of anybody used to keep an address from being confirmed until the next day.
    const ask = (as: string) => change(as, 'Owner@example.com')
    for (const name of ['eva', 'uma']) {
      const as = await signInAs(name)
      for (let i = 0; i < 5; i++) expect((await ask(as)).status).to.equal(200)
      expect((await ask(as)).status, 'its own share is bounded').to.equal(429)
    }
    expect((await ask(await signInAs('owner', false))).status).to.equal(200)
    await scenario.mailbox.mailTo('Owner@example.com', 11)
    expect((await scenario.confirm(await scenario.linkTo('owner@example.com'))).status).to.equal(200)
  })

  it('takes a new address only once its link was confirmed, and lets older links lapse', async () => {
    const as = await signInAs('cleo')
    expect((await change(as, 'first@example.com')).body).to.deep.equal({ ok: true })
    expect((await change(as, 'second@example.com')).body).to.deep.equal({ ok: true })
    expect((await scenario.ask('/v1/account', { as })).body.email).to.equal('cleo@example.com')
    const [first, second] = [await scenario.linkTo('first@example.com'), await scenario.linkTo('second@example.com')]
    expect((await scenario.confirm(second)).status).to.equal(200)
    expect((await scenario.confirm(first)).status).to.equal(404)
    expect((await scenario.ask('/v1/account', { as })).body.email).to.equal('second@example.com')
  })

  it('bounds the mails of an account and to an address, and refuses what is no address', async () => {
    const as = await signInAs('dan')
    const begunAt = performance.now()
    /** That a wait ends when the counted mail is so old, whatever this test took. */
    const expectWait = ({ headers }: { headers: Headers }, hours: number) => {
      const tookSeconds = Math.ceil((performance.now() - begunAt) / 1_000)
      expect(Number(headers.get('retry-after'))).to.be.within(hours * 3_600 - tookSeconds, hours * 3_600)
    }
    const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => change(as, `dan${i}@example.com`)))
    expect(answers.filter(({ status }) => status === 200)).to.have.length(5)
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused.map(({ body }) => body.code)).to.deep.equal(Array(3).fill('RATE_LIMIT_EXCEEDED'))
    for (const answer of refused) expectWait(answer, 1)
    const age = (hours: number) =>
      scenario.database.rows(
        `UPDATE email_links SET created_at = created_at - make_interval(hours => $1) WHERE email LIKE 'dan%'`,
        [hours],
      )
    for (const hours of [2, 2, 2]) {
      await age(hours)
      for (let i = 0; i < 5; i++) expect((await change(as, `dan${i}@example.com`)).status).to.equal(200)
    }
    await age(2)
    const ofDay = await change(as, 'dan9@example.com')
    expect([ofDay.status, ofDay.body.code], 'the share of a day').to.deep.equal([429, 'RATE_LIMIT_EXCEEDED'])
    expectWait(ofDay, 16)
    await age(16)
    expect((await change(as, 'dan9@example.com')).status).to.equal(200)
    for (const email of ['a@b@c', 'a b@c.de', 'dan@example.com\r\nBcc: eve@example.com']) {
      expect((await change(as, email)).status, JSON.stringify(email)).to.equal(422)
    }
  })

  it('reports a refusal of the provider', async () => {
    const browser = openBrowser({ 'x-person': 'nobody' })
    const { status, body } = await scenario.ask(await begin(browser), { browser })
    expect([status, body.code]).to.deep.equal([403, 'SIGN_IN_REFUSED'])
    expect(body.detail).to.include('access_denied')
  })

  describe('refuses', () => {
    let browser: Browser
    let back: string
    beforeEach(async () => {
      browser = scenario.personOf('mallory')
      back = await begin(browser)
    })
    const expire = (step: 'returned_at' | 'exchanged_at') =>
      scenario.database.rows(`UPDATE sign_ins SET expires_at = now() - interval '1 second' WHERE ${step} IS NULL`)
    const tokenRequests = () => scenario.provider.requests.filter(one => one === 'POST /token').length

    it('another browser, without asking the provider, and the first one may still come back', async () => {
      const before = tokenRequests()
      await refusedWith(back, openBrowser(), 'SIGN_IN_REFUSED')
      const stranger = scenario.personOf('mallory', {})
      await begin(stranger)
      await refusedWith(back, stranger, 'SIGN_IN_REFUSED')
      expect(tokenRequests()).to.equal(before)
      expect((await scenario.ask(back, { browser })).status).to.equal(200)
    })

    it('a return that comes twice', async () => {
      const answers = await Promise.all([1, 2, 3].map(() => scenario.ask(back, { browser })))
      expect(answers.map(({ status }) => status).sort()).to.deep.equal([200, 403, 403])
    })

    it('a state that was changed, left out or never begun', async () => {
      const url = new URL(back)
      url.searchParams.set('state', 'x'.repeat(43))
      await refusedWith(url.href, browser, 'SIGN_IN_REFUSED')
      url.searchParams.delete('state')
      await refusedWith(url.href, browser, 'VALIDATION_ERROR')
    })

    it('a code of somebody else’s sign-in: PKCE and nonce bind it to the one that began', async () => {
      const other = scenario.personOf('victim')
      const foreign = new URL(await begin(other)).searchParams.get('code') as string
      const url = new URL(back)
      url.searchParams.set('code', foreign)
      const { status, body } = await scenario.ask(url.href, { browser })
      expect([status, body.code]).to.deep.equal([403, 'SIGN_IN_REFUSED'])
    })

    it('one that took too long', async () => {
      await expire('returned_at')
      await refusedWith(back, browser, 'SIGN_IN_REFUSED')
    })

    it('a code that comes twice, in another browser, or too late', async () => {
      const { body } = await scenario.ask(back, { browser })
      const exchange = (as: Browser) =>
        scenario.ask('/v1/account/session', { method: 'POST', body: { code: body.code }, browser: as })
      expect((await exchange(openBrowser())).status).to.equal(403)
      const answers = await Promise.all([1, 2, 3].map(() => exchange(browser)))
      expect(answers.map(({ status }) => status).sort()).to.deep.equal([200, 403, 403])
      const late = await scenario.ask(await begin(browser), { browser })
      await expire('exchanged_at')
      const code = { code: late.body.code }
      const answer = await scenario.ask('/v1/account/session', { method: 'POST', body: code, browser })
      expect([answer.status, answer.body.code]).to.deep.equal([403, 'SIGN_IN_REFUSED'])
    })

    it('a disabled account', async () => {
      await scenario.ask(back, { browser })
      await scenario.database.rows(
        `UPDATE accounts SET disabled_at = now() FROM identities i WHERE i.account_id = id AND subject = 'mallory'`,
      )
      await refusedWith(await begin(browser), browser, 'AUTH_ACCOUNT_DISABLED')
      await scenario.database.rows('UPDATE accounts SET disabled_at = NULL')
    })
  })

  it('sends its cookie to this API alone, out of reach of scripts', async () => {
    const { headers, status } = await scenario.ask('/v1/account/login')
    expect(status).to.equal(302)
    const cookie = headers.get('set-cookie') ?? ''
    expect(cookie).to.match(/^marketlog_sign_in=[\w-]{43}; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/)
    expect(headers.get('location')).not.to.include(cookie.slice('marketlog_sign_in='.length, 60))
    const asked = new URL(headers.get('location') ?? '').searchParams
    expect(asked.get('code_challenge_method')).to.equal('S256')
    for (const name of ['code_challenge', 'state', 'nonce']) expect(asked.get(name)).to.match(/^[\w-]{43}$/)
  })

  it('is a 502 while the provider does not answer, and works again afterwards', async () => {
    const browser = scenario.personOf('zoe')
    const back = await begin(browser)
    scenario.provider.isDown = true
    const lost = await scenario.ask(back, { browser }).finally(() => {
      scenario.provider.isDown = false
    })
    expect([lost.status, lost.body.code]).to.deep.equal([502, 'UPSTREAM_ERROR'])
    expect(await scenario.signIn(browser)).to.have.property('access_token')
  })
})

describe('sign-in by a provider that puts the address into its token', () => {
  const platform = useServers()
  let scenario: SignInScenario
  before('a provider and the API', async () => {
    scenario = await openSignInScenario(platform, { emailInToken: true })
  })
  after('end of the scenario', () => scenario.close())

  it('believes the address only when the provider says that it is verified', async () => {
    const people = { yes: true, no: false, silent: undefined }
    for (const [name, email_verified] of Object.entries(people)) {
      const browser = scenario.personOf(name, { email: `${name}@example.com`, email_verified })
      const { access_token: as } = await scenario.signIn(browser)
      const { body } = await scenario.ask('/v1/account', { as })
      expect(body).to.include({ email: `${name}@example.com`, email_verified: name === 'yes' })
    }
    expect(scenario.provider.requests).not.to.include('GET /me')
  })
})

describe('without a sign-in configured', () => {
  const platform = useServers()
  let scenario: SignInScenario
  before('the API alone', async () => {
    const overrides = { signIn: undefined, platformSignInUrl: undefined, smtpUrl: undefined, secretKey: undefined }
    scenario = await openSignInScenario(platform, { overrides })
  })
  after('end of the scenario', () => scenario.close())

  it('its routes say what to set, and the others work', async () => {
    for (const path of ['/v1/account/login', '/v1/.well-known/jwks.json', '/v1/account/callback?state=a']) {
      const { status, body } = await scenario.ask(path)
      expect([status, body.code], path).to.deep.equal([404, 'SIGN_IN_NOT_CONFIGURED'])
      expect(body.detail).to.include('MARKETLOG_OIDC_URL')
    }
    const forged = await scenario.ask('/v1/account', { as: 'a.b.c' })
    expect([forged.status, forged.body.code]).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
    expect((await scenario.ask('/v1/openapi.json')).status).to.equal(200)
  })
})
