import { readdirSync, readFileSync } from 'node:fs'
import { expect } from 'chai'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { hashOfKey, openKeyDirectory } from '#services/accounts/access/reader.ts'
import { newKeyText } from '#services/accounts/keys/commands.ts'
import { dropDatabase } from '#test/harness/remove-namespace.ts'
import { useServers } from '#test/harness/use-servers.ts'

const FOLDER = new URL('../../infra/postgres/migrations/', import.meta.url)
const NAMES = readdirSync(FOLDER).sort()
const ROWS = 50

type Row = Record<string, unknown>

/** With the columns of this version alone. */
const FILLED_VERSION = 5
const FILL = `
  INSERT INTO accounts (name, tier, disabled_at)
    SELECT 'account ' || i, (ARRAY['free', 'starter', 'pro', 'quant'])[1 + i % 4], CASE WHEN i % 7 = 0 THEN now() END
    FROM generate_series(1, ${ROWS}) AS i;
  WITH roots AS (SELECT id AS account_id, gen_random_uuid() AS id FROM accounts)
  INSERT INTO api_keys (id, account_id, kind, root_key_id, hash, name, last_used_at)
    SELECT id, account_id, 'root', id, sha256(id::text::bytea), NULL, now() FROM roots;
  INSERT INTO api_keys (account_id, kind, root_key_id, hash, name, revoked_at, expires_at, rate_requests_per_minute_override)
    SELECT k.account_id, 'child', k.id, sha256((k.id::text || i)::bytea), 'child ' || i,
      CASE WHEN i = 1 THEN now() END, CASE WHEN i = 2 THEN now() END, i
    FROM api_keys k, generate_series(1, 3) AS i WHERE k.kind = 'root';
  INSERT INTO identities (issuer, subject, account_id, created_at) SELECT 'https://id.example', name, id, now() FROM accounts;
  INSERT INTO sessions (id, account_id, created_at, expires_at) SELECT gen_random_uuid(), id, now(), now() FROM accounts;
  INSERT INTO refresh_tokens (hash, session_id, issued_at) SELECT sha256(id::text::bytea), id, now() FROM sessions;
  INSERT INTO alerts (id, account_id, item_id, market_hash_name, kind, threshold_value, threshold_currency, is_enabled, version,
      created_at, updated_at)
    SELECT gen_random_uuid(), id, 4940, 'Item', 'price_below', 12.50, 'USD', true, 1, now(), now() FROM accounts;
  INSERT INTO alert_events (id, account_id, alert_id, alert_version, item_id, market_hash_name, kind, threshold_value, triggered_value,
      best_ask_micro_usd, ask_provider, reason, created_at)
    SELECT gen_random_uuid(), account_id, id, 1, 4940, 'Item', 'price_below', 12.50, 12.40, 12400000, 'provider_01', 'below', now()
    FROM alerts;
  INSERT INTO webhooks (id, account_id, label, url, platform, sealed_secret, secret_last4, is_active, created_at, updated_at)
    SELECT gen_random_uuid(), id, 'hook', 'https://example.com', 'custom', 'v1.', 'abcd', true, now(), now() FROM accounts;
  INSERT INTO portfolios (account_id, name, created_at, updated_at) SELECT id, 'mine', now(), now() FROM accounts;`

describe('migrations', () => {
  const platform = useServers({ setUp: false })
  const made: string[] = []
  const open: Database[] = []
  after(async () => {
    for (const database of open) await database.close()
    for (const url of made) await dropDatabase(url, platform.log)
  })

  function newDatabase(name: string): { url: string; database: Database } {
    const { config, log } = platform
    const url = databaseUrl(config.servers.postgres, `${databaseName(config.namespace)}_${name}`)
    const database = openDatabase(url, { name: 'migrations', log, connections: 2 })
    made.push(url)
    open.push(database)
    return { url, database }
  }

  /** Tables, columns, constraints and indexes, as Postgres lists them. */
  async function shapeOf(database: Database): Promise<unknown> {
    const columns = await database.rows(
      `SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
       WHERE table_schema = 'public' AND table_name <> 'migrations' ORDER BY 1, 2`,
    )
    const indexes = await database.rows(
      `SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'migrations' ORDER BY 1`,
    )
    const constraints = await database.rows(
      `SELECT conrelid::regclass::text AS t, pg_get_constraintdef(oid) AS c FROM pg_constraint
       WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2`,
    )
    return { columns, indexes, constraints }
  }

  /** Every row of every table, in the columns of that moment. */
  async function contentOf(database: Database): Promise<Map<string, Row[]>> {
    const tables = await database.rows<{ name: string; columns: string }>(
      `SELECT table_name AS name, string_agg(quote_ident(column_name), ', ' ORDER BY column_name) AS columns
       FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'migrations' GROUP BY 1`,
    )
    const content = new Map<string, Row[]>()
    for (const { name, columns } of tables) {
      content.set(`${columns} FROM ${name}`, await database.rows(`SELECT ${columns} FROM ${name} ORDER BY ${columns}`))
    }
    return content
  }

  it('only go forward, one file a number', () => {
    for (const name of NAMES) {
      expect(name).to.match(/^\d{4}_[a-z0-9-]+\.sql$/)
      expect(readFileSync(new URL(name, FOLDER), 'utf8')).not.to.match(/down migration|DROP TABLE|DROP COLUMN/i)
    }
    expect(new Set(NAMES.map(name => name.slice(0, 4))).size).to.equal(NAMES.length)
  })

  it('bring an empty database to the newest version at once and step by step alike', async () => {
    const [atOnce, inSteps] = [newDatabase('at_once'), newDatabase('in_steps')]
    expect(await migrate(atOnce.url)).to.deep.equal(NAMES.map(name => name.replace('.sql', '')))
    for (const name of NAMES) expect(await migrate(inSteps.url, 1)).to.deep.equal([name.replace('.sql', '')])
    expect(await migrate(inSteps.url)).to.deep.equal([])
    expect(await shapeOf(inSteps.database)).to.deep.equal(await shapeOf(atOnce.database))
  })

  it('keep everything that a filled database holds, and its keys working', async () => {
    const { url, database } = newDatabase('filled')
    await migrate(url, FILLED_VERSION)
    await database.rows(FILL)
    const key = newKeyText('root')
    await database.rows(
      `WITH a AS (INSERT INTO accounts (tier) VALUES ('pro') RETURNING id)
      INSERT INTO api_keys (id, account_id, kind, root_key_id, hash) SELECT $1, id, 'root', $1, decode($2, 'hex') FROM a`,
      [crypto.randomUUID(), hashOfKey(key)],
    )
    const before = await contentOf(database)
    await migrate(url)
    for (const [source, rows] of before) {
      const columns = source.slice(0, source.indexOf(' FROM '))
      expect(await database.rows(`SELECT ${source} ORDER BY ${columns}`), source).to.deep.equal(rows)
    }
    expect((await openKeyDirectory(database).authenticate(`Bearer ${key}`)).accepted).to.equal(true)
  })
})
