/**
 * `marketlog rebuild VIEW` and `marketlog verify VIEW`: a view built of the log once more, to be read or to be compared.
 *
 * A rebuild goes on while the old view is read and written, then switches to it (streams/runner/build.ts; of the alerts, which are
 * the state of a role, streams/alert-triggers/rebuild.ts). A comparison changes nothing that is read: another version is made
 * and dropped (streams/runner/verify.ts); the cut is the view's own position, and alerts are read until they settle.
 */
import { withLogAccess } from '#infra/kafka/log-access.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { readAllRules, readAllTriggers } from '#services/alerts/rules/reader.ts'
import { alerts } from '#streams/alert-triggers/view.ts'
import type { Findings } from '#streams/runner/findings.ts'
import { VIEWS } from '#streams/views.ts'
import { withDatabase } from '../accounts.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import { type CommandContext, write } from '../output.ts'
import { withProgress } from '../progress.ts'

/** Every view that can be rebuilt and verified, and the accounts' alerts, which no single store holds. */
const COMMAND_VIEWS = [
  ...VIEWS.flatMap(({ name, aliases = [], rebuild, verify }) =>
    rebuild && verify ? [{ name, aliases, rebuild, verify }] : [],
  ),
  {
    name: 'alerts',
    aliases: [] as string[],
    rebuild: alerts.rebuild,
    verify: alerts.verifyWith(({ config, log }, use) =>
      withDatabase(config, log, database =>
        use({ rules: take => readAllRules(database, take), triggers: take => readAllTriggers(database, take) }),
      ),
    ),
  },
]

export function viewOf(text: string): (typeof COMMAND_VIEWS)[number] {
  const view = COMMAND_VIEWS.find(({ name, aliases }) => name === text || aliases.includes(text))
  if (view !== undefined) return view
  const { computedOf } = VIEWS.find(({ name }) => name === text) ?? {}
  if (computedOf !== undefined)
    throw new CommandFailure(
      `${text} is computed by its role, again and again, of ${Object.keys(computedOf).join(', ')}: rebuild and verify those`,
      exitCodes.usage,
    )
  const names = [...COMMAND_VIEWS.map(({ name }) => name), ...COMMAND_VIEWS.flatMap(({ aliases }) => aliases)]
  throw new CommandFailure(`no view is called ${text}. There are ${names.join(', ')}`, exitCodes.usage)
}

export async function rebuild(
  { config, log, output }: CommandContext,
  text: string,
  options: { acceptLoss: boolean; signal: AbortSignal },
): Promise<void> {
  const { name, rebuild } = viewOf(text)
  const startedAt = performance.now()
  try {
    const result = await withProgress(progress => {
      const onProgress = (step: string): void => progress.step(`rebuilding ${name}: ${step}`)
      return rebuild({ config, log, onProgress, ...options })
    })
    const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(1))
    await write(output, `${JSON.stringify({ view: name, seconds, ...result })}\n`)
  } catch (error) {
    if (options.signal.aborted) throw new CommandFailure(`stopped; ${name} is as it was`, exitCodes.stoppedBySignal)
    throw new CommandFailure(`${name} is as it was: ${messageOf(error)}`, exitCodes.failed, error)
  }
}

/**
 * Compares a view with the log; prints differences and a summary as JSON lines. Throws when it differs, or when nothing was
 * compared, which proves nothing.
 */
export async function verify({ config, log, output }: CommandContext, text: string): Promise<void> {
  const { name } = viewOf(text)
  const { examples, ...summary } = await withProgress(progress =>
    findingsOf(config, log, name, step => progress.step(`verifying ${name}: ${step}`)),
  )
  for (const line of [...examples, { view: name, ...summary }]) await write(output, `${JSON.stringify(line)}\n`)
  if (summary.differences > 0) {
    const differ = `${summary.differences.toLocaleString('en')} rows of ${name} differ from the log`
    throw new CommandFailure(`${differ}; \`marketlog rebuild ${name}\` rebuilds it`)
  }
  if (summary.compared === 0) throw new CommandFailure(`no row of ${name} was compared with the log`)
}

export function findingsOf(
  config: PlatformConfig,
  log: Log,
  name: string,
  report: (step: string) => void,
): Promise<Findings> {
  const { topics, compare } = viewOf(name).verify
  return withLogAccess(config, log, topics, access => compare({ config, log, access, report }))
}
