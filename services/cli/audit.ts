/** `marketlog audit`: the latest entries of the security audit log, oldest first. */
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { AUDIT_KINDS, type AuditKind, readAuditLog } from '#services/accounts/audit/reader.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { type Column, type Output, writeResults } from './output.ts'
import { withDatabase } from './provide-keys.ts'

const LIMIT_MAX = 100_000
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export async function showAuditLog(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: { account?: string; kind?: string; days: number; limit: number; json?: boolean },
): Promise<void> {
  const { account, kind, days, limit } = options
  if (account !== undefined && !UUID.test(account)) {
    throw new CommandFailure(`${account} is no id of an account; GET /v1/account shows it`, exitCodes.usage)
  }
  if (kind !== undefined && !AUDIT_KINDS.includes(kind as AuditKind)) {
    throw new CommandFailure(`there is no kind ${kind}; the kinds are ${AUDIT_KINDS.join(', ')}`, exitCodes.usage)
  }
  const entries = await withDatabase(config, log, database =>
    readAuditLog(database, {
      accountId: account ?? null,
      kind: (kind as AuditKind) ?? null,
      since: Date.now() - days * DAY_MS,
      limit: Math.min(Math.ceil(limit), LIMIT_MAX),
    }),
  )
  const columns: Column<(typeof entries)[number]>[] = [
    { head: 'at', cell: ({ at }) => at },
    { head: 'kind', cell: ({ kind }) => kind },
    { head: 'account', cell: ({ account_id }) => account_id },
    { head: 'address', cell: ({ address }) => address },
    { head: 'key', cell: ({ key_id }) => key_id, spare: true },
    { head: 'detail', cell: ({ detail }) => JSON.stringify(detail), spare: true },
  ]
  await writeResults(output, options, columns, entries)
}
