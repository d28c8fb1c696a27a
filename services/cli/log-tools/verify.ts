/**
 * `marketlog verify VIEW`: derives a view from the log and compares it with what is stored, while the role goes on.
 *
 * The cut is the view's own position; alerts are read until they settle. Changes nothing that is read: another version is made and dropped
 * (streams/runner/verify.ts). Prints each difference and a summary as JSON lines; exit code 1 on any, and where nothing was compared.
 */
import { openLogAccess } from '#infra/kafka/log-access.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Findings } from '#streams/runner/findings.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import { openProgress } from '../progress.ts'
import { type Output, write } from './output.ts'
import { viewOf } from './views.ts'

/** Verifies a view; throws when it differs, or when nothing was compared, which proves nothing. */
export async function verify(config: PlatformConfig, log: Log, name: string, output: Output): Promise<void> {
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
  if (summary.compared === 0) throw new CommandFailure(`no row of ${name} was compared with the log`, exitCodes.failed)
}

/** Compares a view with the log. */
export async function findingsOf(
  config: PlatformConfig,
  log: Log,
  name: string,
  report: (step: string) => void,
): Promise<Findings> {
  const { topics, compare } = viewOf(name).verify
  const access = await openLogAccess(config, log, topics)
  try {
    return await compare({ config, log, access, report })
  } finally {
    await access.close()
  }
}
