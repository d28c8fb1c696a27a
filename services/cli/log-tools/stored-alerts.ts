import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { StoredAlerts, StoredRule, StoredTrigger } from '#streams/alert-triggers/view.ts'

/** Lends the tables of alerts to a comparison. */
export async function withStoredAlerts<T>(
  { config, log }: { config: PlatformConfig; log: Log },
  use: (stored: StoredAlerts) => Promise<T>,
): Promise<T> {
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const database = openDatabase(url, { name: 'verify', log })
  try {
    return await use({
      rules: take => readAllRules(database, take),
      triggers: take => readAllTriggers(database, take),
    })
  } finally {
    await database.close()
  }
}

const RULES = `SELECT id, account_id, item_id, kind, threshold_value::text AS threshold_value, threshold_currency, is_enabled,
    version
  FROM alerts`

const TRIGGERS = `SELECT id, alert_id, alert_version::text AS alert_version, triggered_value::text AS triggered_value,
    triggered_currency, best_ask_micro_usd::text AS best_ask_micro_usd, best_bid_micro_usd::text AS best_bid_micro_usd,
    ask_provider, bid_provider
  FROM alert_events`

/** Passes the rules of all accounts, by ascending id. */
const readAllRules = (database: Database, take: (rule: StoredRule) => void): Promise<void> =>
  readAll(database, RULES, take)

/** Passes the triggers that all events were recorded of, by ascending id of the event. */
const readAllTriggers = (database: Database, take: (trigger: StoredTrigger) => void): Promise<void> =>
  readAll(database, TRIGGERS, take)

const PAGE_ROWS = 20_000
/** Below every id. */
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/** Passes all rows of a select in the order of their ids, page by page. */
async function readAll<T extends { id: string }>(
  database: Database,
  select: string,
  take: (row: T) => void,
): Promise<void> {
  for (let after: string | undefined = FIRST_ID; after !== undefined; ) {
    const rows: T[] = await database.rows<T>(`${select} WHERE id > $1 ORDER BY id LIMIT $2`, [after, PAGE_ROWS])
    for (const row of rows) take(row)
    after = rows.at(-1)?.id
  }
}
