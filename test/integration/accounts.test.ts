import { expect } from 'chai'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { hashOfKey, openKeyDirectory } from '#services/accounts/access/reader.ts'
import { createAccountWithKey, newKeyText } from '#services/accounts/keys/commands.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { layWire, type Wire } from '#test/harness/wire-proxy.ts'

describe('accounts and keys', () => {
  const platform = useServers({ setUp: false })
  let url: string
  let wire: Wire
  let database: Database
  before('a database of its own', async () => {
    const { config, log } = platform
    url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
    const ran = await Promise.all([migrate(url), migrate(url), migrate(url)])
    expect(ran.flat(), 'each migration ran once').to.deep.equal([...new Set(ran.flat())])
    expect(ran.flat()).not.to.have.length(0)
    expect(await migrate(url)).to.deep.equal([])
    wire = await layWire(url)
    database = openDatabase(wire.url, { name: 'test', log })
  })
  after('end of the database', async () => {
    await database.close()
    await wire.close()
  })

  describe('the key directory', () => {
    it('refuses a revoked key once its answer is 900 ms old, or is 400 ms old and was asked for again by a use', async () => {
      let time = 0
      const keys = openKeyDirectory(database, () => time)
      const made = await Promise.all([1, 2].map(() => createAccountWithKey(database, { tier: 'pro' })))
      const [used, unused] = made.map(({ key }) => `Bearer ${key}`)
      for (const key of [used, unused]) expect((await keys.authenticate(key)).accepted).to.equal(true)
      for (const { key_id } of made)
        await database.rows('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [key_id])
      for (time of [399, 400]) expect(keys.authenticate(used), `after ${time} ms`).to.include({ accepted: true })
      await eventually(async () => !(await keys.authenticate(used)).accepted, 'the refusal of the key in use')
      time = 899
      expect(keys.authenticate(unused)).to.include({ accepted: true })
      time = 900
      const revoked = { accepted: false, code: 'AUTH_API_KEY_REVOKED' }
      for (const key of [used, unused]) expect(await keys.authenticate(key)).to.include(revoked)
    })

    it('accepts a key that was unknown a moment ago', async () => {
      const keys = openKeyDirectory(database)
      const { account_id } = await createAccountWithKey(database, { tier: 'pro' })
      await database.rows('UPDATE api_keys SET revoked_at = now() WHERE account_id = $1', [account_id])
      const key = newKeyText('root')
      expect(await keys.authenticate(`Bearer ${key}`)).to.include({ code: 'AUTH_INVALID_API_KEY' })
      const id = crypto.randomUUID()
      await database.rows(
        `INSERT INTO api_keys (id, account_id, kind, root_key_id, hash) VALUES ($1, $2, 'root', $1, decode($3, 'hex'))`,
        [id, account_id, hashOfKey(key)],
      )
      expect((await keys.authenticate(`Bearer ${key}`)).accepted).to.equal(true)
    })

    it('without Postgres lets known keys pass until their answers are 900 ms old, and none afterwards', async () => {
      let time = 0
      const keys = openKeyDirectory(database, () => time)
      const { key } = await createAccountWithKey(database, { tier: 'pro' })
      expect((await keys.authenticate(`Bearer ${key}`)).accepted).to.equal(true)
      wire.cut()
      time = 899
      expect(keys.authenticate(`Bearer ${key}`)).to.include({ accepted: true })
      time = 900
      const refusal = await Promise.resolve(keys.authenticate(`Bearer ${key}`)).catch(error => error)
      expect(refusal).to.be.instanceOf(Error)
      wire.heal()
      await eventually(async () => (await keys.authenticate(`Bearer ${key}`)).accepted, 'Postgres to be back')
    })
  })
})
