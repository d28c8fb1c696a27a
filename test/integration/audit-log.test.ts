import { expect } from 'chai'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { DAY_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { cleanAuditLog, openRefusalWatch } from '#services/accounts/audit/commands.ts'
import { createAccountWithKey, newKeyText } from '#services/accounts/keys/commands.ts'
import { openSignInScenario, type SignInScenario } from '#test/fixtures/sign-in-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { useServers } from '#test/harness/use-servers.ts'

interface Entry {
  kind: string
  key_id: string | null
  address: string | null
  detail: Record<string, unknown>
}

describe('the audit log', () => {
  const platform = useServers()
  let scenario: SignInScenario
  before('a provider, a mail server and the API', async () => {
    scenario = await openSignInScenario(platform, { overrides: { secretKey: newSecretKey() } })
  })
  after('end of the scenario', () => scenario.close())

  const entriesOf = (accountId: string): Promise<Entry[]> =>
    scenario.database.rows<Entry & Record<string, unknown>>(
      'SELECT kind, key_id, address, detail FROM audit_log WHERE account_id = $1 ORDER BY id',
      [accountId],
    )
  const ask = (method: string, path: string, as: string | undefined, body?: unknown) =>
    scenario.ask(`/v1/account${path}`, { method, as, body })
  const shown = (...args: string[]) =>
    runCommand(['audit', ...args], { PATH: process.env.PATH, ...platform.environment })

  it('has sign-in, reissue, addresses, the platform link, refresh reuse and the end of sessions', async () => {
    const tokens = await scenario.signInAs('ada')
    const as = tokens.access_token
    const account = (await ask('GET', '', as)).body
    const reissued = (await ask('POST', '/key/reissue', as)).body
    await ask('POST', '/email', as, { email: 'ada@elsewhere.example' })
    expect((await scenario.confirm(await scenario.linkTo('ada@elsewhere.example'))).status).to.equal(200)
    const { browser, back } = await scenario.departToPlatform(as)
    expect((await scenario.ask(back, { browser })).status).to.equal(200)
    await ask('DELETE', '/platform', as)
    for (const status of [200, 401, 401]) {
      const again = await ask('POST', '/session/refresh', undefined, { refresh_token: tokens.refresh_token })
      expect(again.status).to.equal(status)
    }
    await ask('POST', '/session/revoke-all', reissued.key)
    const entries = await entriesOf(account.id)
    expect(entries.map(({ kind }) => kind)).to.deep.equal([
      ...['session.opened', 'key.reissued', 'email.change_requested', 'email.changed', 'platform.linked'],
      ...['platform.unlinked', 'session.refresh_reused', 'session.all_revoked'],
    ])
    expect(entries.map(({ address }) => address)).to.deep.equal(Array(8).fill('127.0.0.1'))
    expect(entries[1]?.detail.issued_key_id).to.equal(reissued.id)
    expect(entries[1]?.key_id, 'the key that asked').to.match(/^[0-9a-f-]{36}$/)
    expect(entries[7]?.key_id).to.equal(reissued.id)
    const texts = JSON.stringify(entries)
    expect(texts).not.to.match(/example|sk_live|70000000000000042|refresh_[A-Za-z0-9_-]{43}/)
  })

  it('has child keys with their scopes, and webhooks without their URLs', async () => {
    const { key, account_id, key_id } = await createAccountWithKey(scenario.database, { tier: 'quant' })
    const child = (await ask('POST', '/sub-keys', key, { name: 'bot', scopes: ['feeds'] })).body.key_info.id
    await ask('PATCH', `/sub-keys/${child}`, key, { scopes: ['alerts', 'webhooks'] })
    const next = (await ask('POST', `/sub-keys/${child}/reissue`, key)).body.key_info.id
    await ask('DELETE', `/sub-keys/${next}`, key)
    const made = await ask('POST', '/webhooks', key, { label: 'hook', url: 'https://hooks.example.com/secret-path' })
    const { id } = made.body.webhook
    await ask('PATCH', `/webhooks/${id}`, key, { url: 'https://hooks.example.com/other-path' })
    await ask('POST', `/webhooks/${id}/rotate-secret`, key)
    await ask('DELETE', `/webhooks/${id}`, key)
    expect((await ask('DELETE', `/webhooks/${id}`, key)).status, 'what was refused is not there').to.equal(404)
    const entries = await entriesOf(account_id)
    expect(entries.map(({ kind, detail }) => [kind, detail])).to.deep.equal([
      ['child_key.created', { child_key_id: child, scopes: ['feeds'] }],
      ['child_key.changed', { child_key_id: child, scopes_before: ['feeds'], scopes: ['alerts', 'webhooks'] }],
      ['child_key.reissued', { child_key_id: child, issued_key_id: next }],
      ['child_key.revoked', { child_key_id: next }],
      ['webhook.created', { webhook_id: id }],
      ['webhook.changed', { webhook_id: id, has_new_url: true, is_active: true }],
      ['webhook.secret_rotated', { webhook_id: id }],
      ['webhook.removed', { webhook_id: id }],
    ])
    for (const entry of entries) expect([entry.key_id, entry.address]).to.deep.equal([key_id, '127.0.0.1'])
    expect(JSON.stringify(entries)).not.to.match(/hooks\.example|whsec_/)
  })

  describe('has bursts of refused credentials', () => {
    const bursts = (address: string) =>
      scenario.database.rows<{ detail: unknown; account_id: null }>(
        `SELECT detail, account_id FROM audit_log WHERE kind = 'credentials.refused' AND address = $1`,
        [address],
      )

    it('once each, and single refusals not at all', async () => {
      const refused = () => ask('GET', '/key', newKeyText('root'))
      for (let i = 0; i < 19; i++) await refused()
      expect(await bursts('127.0.0.1')).to.deep.equal([])
      for (let i = 0; i < 30; i++) await refused()
      const [burst] = await eventually(async () => {
        const found = await bursts('127.0.0.1')
        return found.length > 0 ? found : undefined
      }, 'the entry of the burst')
      expect(burst).to.deep.equal({ detail: { refused: 20 }, account_id: null })
      expect(await bursts('127.0.0.1')).to.have.length(1)
    })

    it('again after ten minutes, by address, and 60 a minute of all together', async () => {
      let now = Date.now()
      const { note } = openRefusalWatch(scenario.database, platform.log, () => now)
      const burst = (address: string) => {
        for (let i = 0; i < 20; i++) note(address)
      }
      const total = async () => {
        const [row] = await scenario.database.rows<{ n: number }>(
          `SELECT count(*)::int AS n FROM audit_log WHERE address LIKE '198.51.%'`,
        )
        return row?.n ?? 0
      }
      const reaches = (count: number) => eventually(async () => (await total()) === count, `${count} bursts`)
      burst('198.51.100.1')
      now += 9 * MINUTE_MS
      burst('198.51.100.1')
      burst('198.51.100.2')
      await reaches(2)
      now += MINUTE_MS
      burst('198.51.100.1')
      await reaches(3)
      now += MINUTE_MS
      for (let i = 0; i < 100; i++) burst(`198.51.101.${i}`)
      await reaches(63)
      now += MINUTE_MS
      burst('198.51.102.1')
      await reaches(64)
    })
  })

  describe('is append-only', () => {
    const insert = async (ageDays: number, address: string): Promise<string> => {
      const [row] = await scenario.database.rows<{ id: string }>(
        `INSERT INTO audit_log (at, kind, address) VALUES (now() - make_interval(days => $1), 'session.opened', $2)
         RETURNING id`,
        [ageDays, address],
      )
      return row?.id as string
    }
    const rowOf = async (id: string) =>
      (await scenario.database.rows<{ address: string }>('SELECT address FROM audit_log WHERE id = $1', [id]))[0]
    const refusalOf = (statement: string) =>
      scenario.database.rows(statement).then(
        () => 'done',
        (error: Error) => error.message,
      )

    it('to every role of the database: nothing is changed, deleted early or emptied', async () => {
      const id = await insert(399, '192.0.2.1')
      for (const statement of [
        `UPDATE audit_log SET kind = 'key.reissued'`,
        `UPDATE audit_log SET at = at - interval '2 days'`,
        `UPDATE audit_log SET address = '192.0.2.9'`,
        'UPDATE audit_log SET account_id = gen_random_uuid()',
        'DELETE FROM audit_log',
        'TRUNCATE audit_log',
      ])
        expect(await refusalOf(statement), statement).to.equal('audit_log is append-only')
      expect(await rowOf(id)).to.deep.equal({ address: '192.0.2.1' })
    })

    it('but for addresses, pseudonyms after 30 days, and rows, which go after 400', async () => {
      const [young, one, same, other] = await Promise.all([
        insert(29, '192.0.2.1'),
        insert(31, '192.0.2.1'),
        insert(300, '192.0.2.1'),
        insert(31, '192.0.2.2'),
      ])
      const [old, almost] = [await insert(401, '192.0.2.1'), await insert(399, '192.0.2.1')]
      await cleanAuditLog(scenario.database, Date.now())
      const [of1, of2, of3] = await Promise.all([one, same, other].map(async id => (await rowOf(id))?.address))
      expect(of1).to.match(/^~[0-9a-f]{16}$/)
      expect(of2, 'the same address').to.equal(of1)
      expect(of3, 'another one').to.match(/^~[0-9a-f]{16}$/)
      expect(of3).not.to.equal(of1)
      expect(await rowOf(young)).to.deep.equal({ address: '192.0.2.1' })
      expect(await rowOf(old)).to.equal(undefined)
      const later = await insert(31, '192.0.2.1')
      await cleanAuditLog(scenario.database, Date.now())
      expect((await rowOf(later))?.address, 'the salt is kept nowhere').not.to.equal(of1)
      expect((await rowOf(one))?.address, 'a pseudonym stays').to.equal(of1)
      // A clock that is ahead of the server's deletes nothing early.
      await cleanAuditLog(scenario.database, Date.now() + 2 * DAY_MS)
      expect((await rowOf(young))?.address).to.match(/^~/)
      expect((await rowOf(almost))?.address).to.match(/^~/)
    })
  })

  describe('npx marketlog audit', () => {
    it('prints the latest entries, oldest first, of an account and kind', async () => {
      const { key, account_id, key_id } = await createAccountWithKey(scenario.database, { tier: 'quant' })
      for (const name of ['one', 'two', 'three']) await ask('POST', '/sub-keys', key, { name })
      await ask('POST', '/key/reissue', key)
      const linesOf = async (...args: string[]) => {
        const { code, stdout, stderr } = await shown('--account', account_id, ...args)
        expect(code, stderr).to.equal(0)
        return stdout
          .split('\n')
          .filter(Boolean)
          .map(line => JSON.parse(line))
      }
      const all = await linesOf()
      expect(all.map(({ kind }) => kind)).to.deep.equal([...Array(3).fill('child_key.created'), 'key.reissued'])
      expect(all[0]).to.have.all.keys('id', 'at', 'kind', 'account_id', 'key_id', 'address', 'detail')
      expect(all[0]).to.include({ account_id, key_id, address: '127.0.0.1' })
      expect(await linesOf('--kind', 'child_key.created', '--limit', '2')).to.deep.equal(all.slice(1, 3))
    })

    it('refuses what is no account and no kind', async () => {
      for (const args of ['--account x', '--kind key', '--days 0'])
        expect((await shown(...args.split(' '))).code, args).to.equal(64)
    })
  })
})
