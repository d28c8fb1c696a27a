/**
 * `marketlog verify VIEW`: derives a view from the log by a fold of its own and compares it with what is stored.
 *
 * Reads only, while the role goes on. The cut is the view's own: the head's offset in Redis, the group's committed offset and
 * the offsets that rows carry in ClickHouse; alerts are read until they settle. Prints each difference and a summary as
 * JSON lines; exit code 1 on any. Shares the row codecs with the roles and no code that folds.
 */
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import { openProgress } from '../progress.ts'
import { type Findings, noFindings } from './findings.ts'
import { openLogAccess } from './log-access.ts'
import { type Output, write } from './output.ts'
import { verifyAlerts } from './verify-alerts.ts'
import { verifyCandles } from './verify-candles.ts'
import { verifyHistory } from './verify-history.ts'
import { verifyLive } from './verify-live.ts'
import { verifySales } from './verify-sales.ts'
import type { ViewName } from './views.ts'

/** Verifies a view; throws when it differs. */
export async function verify(config: PlatformConfig, log: Log, name: ViewName, output: Output): Promise<void> {
  const progress = openProgress(process.stderr)
  const report = (step: string): void => progress.step(`verifying ${name}: ${step}`)
  let findings: Findings
  try {
    findings = await findingsOf(config, log, name, report)
  } finally {
    progress.stop()
  }
  const { examples, ...summary } = findings
  for (const difference of examples) await write(output, `${JSON.stringify(difference)}\n`)
  await write(output, `${JSON.stringify({ view: name, ...summary })}\n`)
  if (summary.differences > 0) {
    const differ = `${summary.differences.toLocaleString('en')} rows of ${name} differ from the log`
    throw new CommandFailure(`${differ}; \`marketlog rebuild ${name}\` rebuilds it`, exitCodes.failed)
  }
}

/** Compares a view with the log. */
export async function findingsOf(
  config: PlatformConfig,
  log: Log,
  name: ViewName,
  report: (step: string) => void,
): Promise<Findings> {
  const access = await openLogAccess(
    config,
    log,
    name === 'alerts' ? ['alertRules', 'alertsTriggered', 'book', 'fx'] : ['bookChanges', 'book', 'sales'],
  )
  try {
    if (name === 'alerts') return await verifyAlerts(config, log, access, report)
    if (name === 'live-view') return await verifyLive(config, log, access, report)
    const tables = openReader(config.servers.clickhouseReadOnly, {
      database: databaseName(config.namespace),
      name: 'marketlog-verify',
    })
    const findings = noFindings()
    try {
      if (name === 'candles') await verifyCandles(access, tables, findings, report)
      else if (name === 'history') await verifyHistory(access, tables, findings, report)
      else {
        const catalog = await openCatalogReader(access.kafka)
        await verifySales(access, tables, catalog.idOf, findings).finally(() => catalog.close())
      }
      return findings
    } finally {
      await tables.close()
    }
  } finally {
    await access.close()
  }
}
