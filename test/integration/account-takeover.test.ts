/**
 * It used to be that a root API key could change the e-mail address and the linked platform account, unnoticed; and that links of mails
 * and sign-ins to the platform that a thief had begun outlived the end of all sessions.
 */
import { expect } from 'chai'
import { openSignInScenario, type SignInScenario, type Tokens } from '#test/fixtures/sign-in-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { waitingForLocks, whileLocked } from '#test/harness/while-locked.ts'

const SENSITIVE = [
  ['GET', '/v1/account/export', undefined],
  ['DELETE', '/v1/account', { confirm: 'nobody@example.com' }],
  ['POST', '/v1/account/email', { email: 'new@example.com' }],
  ['POST', '/v1/account/platform', undefined],
  ['DELETE', '/v1/account/platform', undefined],
] as const

describe('taking an account over', () => {
  const platform = useServers()
  let scenario: SignInScenario
  before('a provider, a mail server and the API', async () => {
    scenario = await openSignInScenario(platform)
  })
  after('end of the scenario', () => scenario.close())

  const signInAs = (name: string): Promise<Tokens> => scenario.signInAs(name)
  const post = (path: string, as: string | undefined, body?: unknown) =>
    scenario.ask(`/v1/account${path}`, { method: 'POST', as, body })
  const refresh = (tokens: Tokens) => post('/session/refresh', undefined, { refresh_token: tokens.refresh_token })
  const statusOf = async (as: string) => (await scenario.ask('/v1/account', { as })).status
  const mailsTo = (address: string) => scenario.mailbox.mails.filter(({ to }) => to.includes(address))

  it('takes a session that was opened within ten minutes, however often it was refreshed, and no root key', async () => {
    const tokens = await signInAs('bea')
    const age = (seconds: number) =>
      scenario.database.rows(
        `UPDATE sessions SET created_at = now() - make_interval(secs => $1)
         WHERE account_id = (SELECT id FROM accounts WHERE email = 'bea@example.com')`,
        [seconds],
      )
    await age(400)
    expect((await post('/platform', tokens.access_token)).status).to.equal(200)
    await age(601)
    await eventually(async () => (await post('/platform', tokens.access_token)).status === 403, 'the session to be old')
    const { access_token: refreshed } = (await refresh(tokens)).body
    const { key } = (await post('/key/reissue', refreshed)).body
    for (const as of [tokens.access_token, refreshed, key]) {
      for (const [method, path, body] of SENSITIVE) {
        const refused = await scenario.ask(path, { method, as, body })
        expect([refused.status, refused.body.code], path).to.deep.equal([403, 'RECENT_SESSION_REQUIRED'])
      }
    }
    expect(await statusOf(refreshed), 'all else goes on').to.equal(200)
    const again = await signInAs('bea')
    expect((await post('/platform', again.access_token)).status).to.equal(200)
  })

  it('is told to the verified address before, once it was replaced', async () => {
    const { access_token } = await signInAs('cleo')
    await post('/email', access_token, { email: 'cleo@elsewhere.example' })
    const link = await scenario.linkTo('cleo@elsewhere.example')
    expect(mailsTo('cleo@example.com'), 'nothing has changed').to.deep.equal([])
    expect((await scenario.confirm(link)).status).to.equal(200)
    const told = await scenario.mailbox.mailTo('cleo@example.com')
    expect(told.subject).to.equal('The e-mail address of your marketlog account was changed')
    expect(told.text).to.include('revoke-all')
    expect(`${told.text}${told.html}`, 'whose it is now is not told').not.to.include('elsewhere')
    expect((await scenario.confirm(link)).status).to.equal(404)
    expect(mailsTo('cleo@example.com')).to.have.length(1)
  })

  it('is told of a platform account that is linked or unlinked', async () => {
    const { access_token: as } = await signInAs('dora')
    const { browser, back } = await scenario.departToPlatform(as)
    expect((await scenario.ask(back, { browser })).status).to.equal(200)
    expect((await scenario.mailbox.mailTo('dora@example.com')).subject).to.include('was linked to')
    expect((await scenario.ask('/v1/account/platform', { method: 'DELETE', as })).status).to.equal(200)
    await scenario.mailbox.mailTo('dora@example.com', 2)
    expect(mailsTo('dora@example.com').map(({ mail }) => mail.subject)).to.include(
      'The platform account was unlinked from your marketlog account',
    )
  })

  describe('POST /account/session/revoke-all', () => {
    it('ends every session of the account at once, with their refresh tokens and sign-ins under way', async () => {
      const [one, two, other] = [await signInAs('eve'), await signInAs('eve'), await signInAs('finn')]
      const browser = scenario.personOf('eve')
      const { code } = (await scenario.ask(await scenario.depart(browser), { browser })).body
      expect((await post('/session/revoke-all', one.access_token)).body).to.deep.equal({ ok: true })
      for (const tokens of [one, two]) {
        expect(await statusOf(tokens.access_token)).to.equal(401)
        expect((await refresh(tokens)).body.code).to.equal('AUTH_INVALID_SESSION')
      }
      const exchanged = await scenario.ask('/v1/account/session', { method: 'POST', body: { code }, browser })
      expect(exchanged.body.code).to.equal('SIGN_IN_REFUSED')
      expect(await statusOf(other.access_token), 'of another account').to.equal(200)
      expect(await statusOf((await signInAs('eve')).access_token), 'a sign-in afterwards').to.equal(200)
    })

    it('ends the links of verification mails that were sent before', async () => {
      const { access_token: as } = await signInAs('hal')
      await post('/email', as, { email: 'thief@elsewhere.example' })
      const link = await scenario.linkTo('thief@elsewhere.example')
      await post('/session/revoke-all', as)
      const confirmed = await scenario.confirm(link)
      expect([confirmed.status, confirmed.body.code]).to.deep.equal([404, 'NOT_FOUND'])
      const again = await signInAs('hal')
      expect((await scenario.ask('/v1/account', { as: again.access_token })).body.email).to.equal('hal@example.com')
      await post('/email', again.access_token, { email: 'hal@elsewhere.example' })
      const own = await scenario.linkTo('hal@elsewhere.example')
      expect((await scenario.confirm(own)).status, 'one that is sent afterwards').to.equal(200)
    })

    it('ends sign-ins to the platform, also while the platform is asked', async () => {
      const { access_token: as } = await signInAs('ida')
      const [early, late] = [await scenario.departToPlatform(as), await scenario.departToPlatform(as)]
      scenario.platform.beforeConfirming = () => post('/session/revoke-all', as)
      const during = await scenario.ask(late.back, { browser: late.browser }).finally(() => {
        scenario.platform.beforeConfirming = async () => undefined
      })
      const after = await scenario.ask(early.back, { browser: early.browser })
      for (const { status, body } of [during, after])
        expect([status, body.code]).to.deep.equal([403, 'SIGN_IN_REFUSED'])
      const again = await signInAs('ida')
      const account = await scenario.ask('/v1/account', { as: again.access_token })
      expect(account.body.platform_id).to.equal(null)
    })

    it('ends sign-ins that are still with the provider', async () => {
      const { access_token: as } = await signInAs('jon')
      const browser = scenario.personOf('jon')
      const back = await scenario.depart(browser)
      await post('/session/revoke-all', as)
      const returned = await scenario.ask(back, { browser })
      expect([returned.status, returned.body.code]).to.deep.equal([403, 'SIGN_IN_REFUSED'])
    })

    it('ends requests that were let in a moment before', async () => {
      const { access_token: as } = await signInAs('kai')
      const account = (await scenario.ask('/v1/account', { as })).body.id
      const wait = (count: number) => async () => (await waitingForLocks(scenario.database)) === count
      // They wait for the account behind the end of all sessions, which waits itself.
      const [ended, ...late] = await whileLocked(
        scenario.database,
        ['SELECT 1 FROM accounts WHERE id = $1 FOR UPDATE', [account]],
        async () => {
          const first = post('/session/revoke-all', as)
          await eventually(wait(1), 'the end of all sessions to wait')
          const others = [
            post('/email', as, { email: 'kai@elsewhere.example' }),
            post('/platform', as),
            post('/key/reissue', as),
          ]
          await eventually(wait(4), 'the others to wait behind it')
          return [first, ...others]
        },
      )
      expect((await ended)?.status).to.equal(200)
      for (const { status, body } of await Promise.all(late))
        expect([status, body.code]).to.deep.equal([401, 'AUTH_INVALID_API_KEY'])
      expect(mailsTo('kai@elsewhere.example')).to.deep.equal([])
    })

    it('takes the root key too, and leaves it', async () => {
      const { access_token } = await signInAs('gus')
      const { key } = (await post('/key/reissue', access_token)).body
      expect((await post('/session/revoke-all', key)).status).to.equal(200)
      expect([await statusOf(access_token), await statusOf(key)]).to.deep.equal([401, 200])
    })
  })
})
