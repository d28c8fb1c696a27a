/**
 * `marketlog lag`: how far each consumer group is behind the log; with --wait, until none is.
 *
 * Writes a table on a terminal and JSON lines in a pipe. Exit code 1 says that the wait's limit was
 * reached, or that a group does not go on reading.
 */
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { describeLag, stoppedNotes, sumByGroup } from './group-lag.ts'
import { type Output, write, writeJson } from './log-tools/output.ts'
import { openProgress } from './progress.ts'
import { tableText, wantsTable } from './table.ts'
import { readLags, waitForViews } from './wait-for-views.ts'

const COLUMNS = [{ head: 'group' }, { head: 'topic' }, { head: 'partitions' }, { head: 'behind' }, { head: 'records' }]

/** Prints the lag of every group. */
export async function showLag(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: { json?: boolean },
): Promise<void> {
  const lags = await readLags(config, log)
  const groups = sumByGroup(lags)
  if (!wantsTable(output, options)) for (const group of groups) await writeJson(output, group)
  else {
    const rows = groups.map(each => [
      each.group,
      each.topic,
      each.partitions,
      each.behind,
      each.lag.toLocaleString('en'),
    ])
    await write(output, tableText(output, COLUMNS, rows))
  }
  const stopped = stoppedNotes(lags)
  if (stopped.length > 0) throw new CommandFailure(stopped.join('\n'))
}

/** Waits until every view reflects what the log holds now; fails when that takes longer than the limit. */
export async function waitForLag(config: PlatformConfig, log: Log, limitSeconds: number): Promise<void> {
  const progress = openProgress(process.stderr)
  const limit = AbortSignal.timeout(limitSeconds * 1000)
  try {
    await waitForViews(config, log, {
      signal: limit,
      onProgress: text => progress.step(`waiting for the views: ${text}`),
    })
  } catch (error) {
    if (!limit.aborted) throw error
    const behind = (await readLags(config, log)).filter(each => each.lag > 0)
    throw new CommandFailure(
      `the views do not reflect the log's end after ${limitSeconds} s: ${describeLag(behind) || 'they do only now'}`,
      exitCodes.failed,
    )
  } finally {
    progress.stop()
  }
}
