/**
 * `marketlog up`: the platform in the foreground, or in the background behind a starter that waits until it is live.
 *
 * The starter and the background process share a channel: the starter shows what it receives and leaves once
 * prices are live. Invariant: a starter that ends before that - also by SIGKILL - closes the channel and so ends the
 * start; after it the platform lives on its own until `marketlog down`.
 */
import { spawn } from 'node:child_process'
import { closeSync, fstatSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment } from '#infra/runtime/secret.ts'
import { CommandFailure, exitCodes, messageOf } from './command-failure.ts'
import type { Report } from './live-check.ts'
import { openProgress, type Progress } from './progress.ts'
import { endOfLog } from './role-process.ts'
import {
  type PlatformFile,
  prepareRunDirectory,
  type RunDirectory,
  readPlatform,
  readSettings,
} from './run-directory.ts'
import { runningSupervisor } from './running-supervisor.ts'
import { settingsOf } from './settle-environment.ts'
import { listenForStop } from './stop-signals.ts'
import { supervise } from './supervisor.ts'

type UpMessage = Report | { kind: 'live'; platform: PlatformFile } | { kind: 'failed'; text: string; exitCode: number }

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))

/** The platform that runs already, if it is live on the settings that are wanted; throws when another one runs. */
function alreadyRunning(directory: RunDirectory, environment: Environment): PlatformFile | undefined {
  const pid = runningSupervisor(directory)?.pid
  if (pid === undefined) return undefined
  const platform = readPlatform(directory)
  if (platform === undefined)
    throw new CommandFailure(`process ${pid} is starting or stopping the platform; wait, or run \`make down\``)
  const [running, wanted] = [readSettings(directory), settingsOf(environment)]
  const different = Object.keys({ ...running, ...wanted }).filter(name => running[name] !== wanted[name])
  if (different.length > 0) {
    throw new CommandFailure(
      `a platform with another ${different.sort().join(', ')} runs at ${platform.base_url}; run \`make down\` first`,
    )
  }
  return platform
}

/** Starts the platform in the background and returns it once it is live. */
export async function upDetached(directory: RunDirectory, environment: Environment): Promise<PlatformFile> {
  const running = alreadyRunning(directory, environment)
  if (running !== undefined) return running
  prepareRunDirectory(directory)
  const logFile = join(directory.logs, 'platform.log')
  const log = openSync(logFile, 'a')
  const logStart = fstatSync(log).size
  const child = spawn(process.execPath, [MAIN, 'up', '--foreground'], {
    env: environment,
    stdio: ['ignore', log, log, 'ipc'],
    detached: true,
  })
  closeSync(log)
  const progress = openProgress(process.stderr)
  const stop = listenForStop(() => {
    progress.step('stopping')
    child.kill('SIGTERM')
  })
  try {
    return await new Promise<PlatformFile>((resolve, reject) => {
      child.on('message', (message: UpMessage) => {
        if (message.kind === 'live') {
          child.disconnect()
          child.unref()
          resolve(message.platform)
        } else if (message.kind === 'failed') reject(new CommandFailure(message.text, message.exitCode))
        else show(progress, message)
      })
      child.once('error', reject)
      child.once('exit', (code, signal) => {
        if (stop.signal.aborted)
          reject(new CommandFailure('stopped; nothing is left running', exitCodes.stoppedBySignal))
        else
          reject(
            new CommandFailure(
              `the platform ended while starting (${signal ?? `exit code ${code}`}).${endOfLog(logFile, logStart)}`,
            ),
          )
      })
    })
  } finally {
    progress.stop()
  }
}

/** Runs the platform in this process until it is stopped; reports to a starter when there is one. */
export async function upForeground(directory: RunDirectory, environment: Environment): Promise<void> {
  const progress = openProgress(process.stderr)
  const stop = listenForStop()
  const send = process.send === undefined ? undefined : (message: UpMessage) => void process.send?.(message, () => {})
  let isLive = false
  process.once('disconnect', () => {
    if (!isLive) stop.abort(new Error('the starter is gone'))
  })
  try {
    await supervise({
      environment,
      directory,
      signal: stop.signal,
      // Once the starter has left, this process's own output is the platform's log.
      report: report => (send === undefined || isLive ? show(progress, report) : send(report)),
      onLive: ({ platform }) => {
        isLive = true
        progress.note(`live at ${platform.base_url}`)
        progress.stop()
        send?.({ kind: 'live', platform })
      },
    })
  } catch (error) {
    const exitCode = error instanceof CommandFailure ? error.exitCode : exitCodes.failed
    send?.({ kind: 'failed', text: messageOf(error), exitCode })
    throw error
  } finally {
    progress.stop()
    if (process.connected) process.disconnect()
  }
}

/** Shows a supervisor's report. */
export function show(progress: Progress, report: Report): void {
  if (report.kind === 'step') progress.step(report.text)
  else progress.note(report.text)
}
