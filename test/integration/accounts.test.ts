import { expect } from 'chai'
import { TIERS } from '#infra/config/tiers.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { bearerOf, hashOfKey, openKeyDirectory } from '#services/accounts/access/reader.ts'
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

  it('are created for every tier, and nothing stored contains a key', async () => {
    for (const tier of TIERS) {
      const made = await createAccountWithKey(database, { tier, name: `account of ${tier}` })
      expect(made.key).to.match(/^sk_live_root_[A-Za-z0-9_-]{43}$/)
      expect(bearerOf(`Bearer ${made.key}`)).to.equal(made.key)
      const stored = await database.rows(
        'SELECT a.*, k.*, encode(k.hash, $1) AS hash FROM accounts a JOIN api_keys k ON k.account_id = a.id WHERE k.id = $2',
        ['hex', made.key_id],
      )
      expect(stored).to.have.length(1)
      expect(stored[0]).to.include({
        tier,
        account_id: made.account_id,
        root_key_id: made.key_id,
        kind: 'root',
        revoked_at: null,
      })
      expect(stored[0]?.hash).to.equal(hashOfKey(made.key))
      expect(JSON.stringify(stored)).not.to.include(made.key.slice('sk_live_root_'.length))
    }
  })

  describe('the tables refuse', () => {
    const rejected = async (statement: string, values: unknown[], constraint: RegExp) => {
      const error = await database.rows(statement, values).then(
        () => undefined,
        reason => reason as { constraint?: string; code?: string },
      )
      expect(`${error?.constraint} ${error?.code}`).to.match(constraint)
    }
    const insertKey = `INSERT INTO api_keys (id, account_id, kind, root_key_id, hash) VALUES ($1, $2, $3, $4, decode($5, 'hex'))`

    it('a second active root key', async () => {
      const { account_id, key_id } = await createAccountWithKey(database, { tier: 'pro' })
      const id = crypto.randomUUID()
      const row = [id, account_id, 'root', id, hashOfKey(newKeyText('root'))]
      await rejected(insertKey, row, /api_keys_active_root/)
      await database.rows('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [key_id])
      await database.rows(insertKey, row)
    })

    it('a child that is its own root, a root that is not, a hash that is none, a tier that is none', async () => {
      const { account_id, key_id } = await createAccountWithKey(database, { tier: 'quant' })
      const [id, hash] = [crypto.randomUUID(), hashOfKey(newKeyText('child'))]
      await rejected(insertKey, [id, account_id, 'child', id, hash], /check/)
      await rejected(insertKey, [id, account_id, 'root', key_id, hash], /check|active_root/)
      await rejected(insertKey, [id, account_id, 'child', key_id, 'abcd'], /hash_check/)
      await rejected('INSERT INTO accounts (tier) VALUES ($1)', ['gold'], /tier_check/)
    })
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
