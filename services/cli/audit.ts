/**
 * `marketlog audit`: the latest entries of the security audit log, oldest first.
 *
 * Writes a table on a terminal and JSON lines in a pipe.
 */
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { AUDIT_KINDS, type AuditKind, readAuditLog } from '#services/accounts/audit/reader.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { type Output, write, writeJson } from './log-tools/output.ts'
import { tableText, wantsTable } from './table.ts'

interface AuditOptions {
  account?: string
  kind?: string
  days: number
  limit: number
  json?: boolean
}

const LIMIT_MAX = 100_000
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const COLUMNS = [
  { head: 'at' },
  { head: 'kind' },
  { head: 'account' },
  { head: 'address' },
  { head: 'key', spare: true },
  { head: 'detail', spare: true },
]

/** Prints the entries of the last days. */
export async function showAuditLog(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: AuditOptions,
): Promise<void> {
  const { account, kind, days, limit } = options
  if (account !== undefined && !UUID.test(account)) {
    throw new CommandFailure(`${account} is no id of an account; GET /v1/account shows it`, exitCodes.usage)
  }
  if (kind !== undefined && !AUDIT_KINDS.includes(kind as AuditKind)) {
    throw new CommandFailure(`there is no kind ${kind}; the kinds are ${AUDIT_KINDS.join(', ')}`, exitCodes.usage)
  }
  const database = openDatabase(databaseUrl(config.servers.postgres, databaseName(config.namespace)), {
    name: 'command-line',
    log,
    connections: 1,
  })
  const since = Date.now() - days * DAY_MS
  const filter = { accountId: account ?? null, kind: (kind as AuditKind) ?? null, since }
  const entries = await readAuditLog(database, { ...filter, limit: Math.min(Math.ceil(limit), LIMIT_MAX) }).finally(
    () => database.close(),
  )
  if (!wantsTable(output, options)) {
    for (const entry of entries) await writeJson(output, entry)
    return
  }
  const rows = entries.map(({ at, kind, account_id, address, key_id, detail }) => [
    ...[at, kind, account_id ?? '', address ?? '', key_id ?? '', JSON.stringify(detail)],
  ])
  await write(output, tableText(output, COLUMNS, rows))
}
