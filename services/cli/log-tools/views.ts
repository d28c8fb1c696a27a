/**
 * What `rebuild` and `verify` take: the views that offer both, and the alerts.
 *
 * Loads their code on request.
 */
import { alerts } from '#streams/alert-triggers/view.ts'
import type { RebuildTask, Verification } from '#streams/runner/view.ts'
import { VIEWS } from '#streams/views.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'

/** A view as the commands know it. */
interface CommandView {
  name: string
  aliases: readonly string[]
  rebuild(task: RebuildTask): Promise<object>
  verify: Verification
}

/** The accounts' alerts, which no single store holds: the state of the role alert-triggers, and rows of Postgres. */
const ALERTS: CommandView = {
  name: 'alerts',
  aliases: [],
  rebuild: alerts.rebuild,
  verify: alerts.verifyWith(async (task, use) => (await import('./stored-alerts.ts')).withStoredAlerts(task, use)),
}

/** Every view that can be rebuilt and verified. */
export const COMMAND_VIEWS: readonly CommandView[] = [
  ...VIEWS.flatMap(({ name, aliases = [], rebuild, verify }) =>
    rebuild && verify ? [{ name, aliases, rebuild, verify }] : [],
  ),
  ALERTS,
]

/** The view of a name; throws where it can be neither rebuilt nor verified. */
export function viewOf(text: string): CommandView {
  const found = COMMAND_VIEWS.find(({ name, aliases }) => name === text || aliases.includes(text))
  if (found !== undefined) return found
  const { computedOf } = VIEWS.find(({ name }) => name === text) ?? {}
  if (computedOf !== undefined)
    throw new CommandFailure(
      `${text} is computed by its role, again and again, of ${Object.keys(computedOf).join(', ')}: rebuild and verify those`,
      exitCodes.usage,
    )
  const names = [...COMMAND_VIEWS.map(({ name }) => name), ...COMMAND_VIEWS.flatMap(({ aliases }) => aliases)]
  throw new CommandFailure(`no view is called ${text}. There are ${names.join(', ')}`, exitCodes.usage)
}
