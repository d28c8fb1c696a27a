/**
 * The commands on views: rebuild and verify.
 *
 * Declares arguments; see commands.ts.
 */
import type { Command } from 'commander'
import { listenForStop } from '../stop-signals.ts'
import type { Connect } from './log-access.ts'
import { endWithReader } from './output.ts'
import { viewOf } from './views.ts'

const VIEWS = 'live-view (or live-asks, live-bids), candles, history, sales, alerts'

/** Adds the commands to a program. */
export function addViews(program: Command, connect: Connect): void {
  program
    .command('rebuild')
    .argument('<view>', VIEWS)
    .description('rebuild a view from the log while it is read, then switch to it in one step')
    .action(async (text: string) => {
      const name = viewOf(text)
      const { config, log } = connect()
      const { rebuild } = await import('./rebuild.ts')
      await rebuild(config, log, name, process.stdout, listenForStop().signal)
    })

  program
    .command('verify')
    .argument('<view>', VIEWS)
    .description('derive a view from the log by other means and compare; exit code 1 on any difference')
    .action(async (text: string) => {
      const name = viewOf(text)
      const { config, log } = connect()
      const { verify } = await import('./verify.ts')
      endWithReader(process.stdout)
      await verify(config, log, name, process.stdout)
    })
}
