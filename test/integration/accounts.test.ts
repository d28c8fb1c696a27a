/**
 * Accounts and keys in Postgres: migrations, what is stored, and how soon a revocation is in force.
 */
import { expect } from 'chai'
import { TIERS } from '#infra/config/tiers.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { hashOfKey, isKeyText, type KeyDirectory, openKeyDirectory } from '#services/accounts/access/reader.ts'
import { createAccountWithKey, newKeyText } from '#services/accounts/keys/commands.ts'
import { layWire, type Wire } from '#test/fixtures/cut-wire.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

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
    wire = await layWire(url)
    database = openDatabase(wire.url, { name: 'test', log, statementLimitMs: 2_000 })
  })
  after('end of the database', async () => {
    await database.close()
    await wire.close()
  })

  it('have their tables migrated once', async () => {
    expect(await migrate(url)).to.deep.equal([])
    const tables = await database.rows<{ table_name: string }>(
      `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'`,
    )
    expect(tables.map(({ table_name }) => table_name)).to.include.members(['accounts', 'api_keys', 'migrations'])
  })

  it('are created for every tier, and nothing stored contains a key', async () => {
    for (const tier of TIERS) {
      const made = await createAccountWithKey(database, { tier, name: `account of ${tier}` })
      expect(made.key).to.match(/^sk_live_root_[A-Za-z0-9_-]{43}$/)
      expect(isKeyText(made.key)).to.equal(true)
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

  it('draws keys that are never alike', () => {
    const keys = Array.from({ length: 1_000 }, () => newKeyText('child'))
    expect(new Set(keys).size).to.equal(keys.length)
    expect(keys.every(key => isKeyText(key) && key.startsWith('sk_live_child_'))).to.equal(true)
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
    /** Judges again and again until the answer is the wished one; the milliseconds until then. */
    async function msUntil(keys: KeyDirectory, key: string, isWished: (accepted: boolean) => boolean): Promise<number> {
      const startedAt = performance.now()
      await eventually(async () => isWished((await keys.judge(`Bearer ${key}`)).accepted), 'another answer')
      return performance.now() - startedAt
    }

    it('answers a known key at once and from memory', async () => {
      const { key, key_id, account_id } = await createAccountWithKey(database, { tier: 'starter' })
      const keys = openKeyDirectory(database)
      const first = await keys.judge(`Bearer ${key}`)
      const again = keys.judge(`Bearer ${key}`)
      expect(again).to.equal(first)
      expect(first).to.deep.equal({
        accepted: true,
        credential: {
          kind: 'key',
          keyId: key_id,
          accountId: account_id,
          tier: 'starter',
          isRootKey: true,
          rootKeyId: key_id,
          quotaPerMonthOverride: null,
          lineageId: key_id,
          ratePerMinuteOverride: null,
          scopes: null,
        },
      })
    })

    it('refuses a key within a second of its revocation, used or unused meanwhile', async () => {
      const keys = openKeyDirectory(database)
      for (let round = 0; round < 3; round++) {
        const { key, key_id } = await createAccountWithKey(database, { tier: 'pro' })
        expect((await keys.judge(`Bearer ${key}`)).accepted).to.equal(true)
        await database.rows('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [key_id])
        expect(await msUntil(keys, key, accepted => !accepted)).to.be.below(1_000)
        expect(await keys.judge(`Bearer ${key}`)).to.include({ code: 'AUTH_API_KEY_REVOKED' })
      }
    })

    it('asks Postgres again for an answer that has aged, whatever the load', async () => {
      let time = 0
      const keys = openKeyDirectory(database, () => time)
      const { key, key_id } = await createAccountWithKey(database, { tier: 'pro' })
      await keys.judge(`Bearer ${key}`)
      await database.rows('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [key_id])
      time = 399
      expect(keys.judge(`Bearer ${key}`)).not.to.be.instanceOf(Promise)
      time = 901
      expect(await keys.judge(`Bearer ${key}`)).to.include({ accepted: false, code: 'AUTH_API_KEY_REVOKED' })
    })

    it('accepts a key that was unknown a moment ago', async () => {
      const keys = openKeyDirectory(database)
      const { account_id } = await createAccountWithKey(database, { tier: 'pro' })
      await database.rows('UPDATE api_keys SET revoked_at = now() WHERE account_id = $1', [account_id])
      const key = newKeyText('root')
      expect(await keys.judge(`Bearer ${key}`)).to.include({ code: 'AUTH_INVALID_API_KEY' })
      const id = crypto.randomUUID()
      await database.rows(
        `INSERT INTO api_keys (id, account_id, kind, root_key_id, hash) VALUES ($1, $2, 'root', $1, decode($3, 'hex'))`,
        [id, account_id, hashOfKey(key)],
      )
      expect((await keys.judge(`Bearer ${key}`)).accepted).to.equal(true)
    })

    it('answers any number of unknown keys by few statements', async () => {
      let statements = 0
      const counting: Database = {
        ...database,
        rows: (statement, values) => {
          statements += 1
          return database.rows(statement, values)
        },
      }
      const keys = openKeyDirectory(counting)
      const answers = await Promise.all(
        Array.from({ length: 3_000 }, () => Promise.resolve(keys.judge(`Bearer ${newKeyText('root')}`))),
      )
      expect(answers.every(answer => !answer.accepted)).to.equal(true)
      expect(statements).to.equal(3)
    })

    it('without Postgres lets known keys pass for less than a second, and none afterwards', async () => {
      const keys = openKeyDirectory(database)
      const { key } = await createAccountWithKey(database, { tier: 'pro' })
      expect((await keys.judge(`Bearer ${key}`)).accepted).to.equal(true)
      await wire.cut()
      const cutAt = performance.now()
      expect((await keys.judge(`Bearer ${key}`)).accepted, 'right after the cut').to.equal(true)
      const refused = await eventually(
        () =>
          Promise.resolve(keys.judge(`Bearer ${key}`)).then(
            () => undefined,
            error => ({ error }),
          ),
        'a refusal',
      )
      expect(performance.now() - cutAt).to.be.below(1_500)
      expect(refused.error).to.be.instanceOf(Error)
      await wire.mend()
      await eventually(async () => (await keys.judge(`Bearer ${key}`)).accepted, 'Postgres to be back')
    })
  })
})
