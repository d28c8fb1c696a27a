/**
 * `marketlog demo`: the platform in this process; `marketlog up`: the same in the background, behind a starter that
 * waits until it is live; `marketlog down` and `marketlog clean` end it, however it was started and whatever became of it.
 *
 * Results go to standard output, progress to standard error. Ctrl-C, the end of the reader of its output and the end of the
 * process that started it all stop a demo. In the background it has a channel to its starter, which shows what it
 * receives and leaves once prices are live. Invariant: a starter that ends before that, also by SIGKILL, closes the channel
 * and so ends the start; after it the platform lives on its own until `marketlog down`. Only processes whose identity matches
 * what was noted are ended.
 */
import { spawn } from 'node:child_process'
import { closeSync, fstatSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment } from '#infra/runtime/secret.ts'
import { endNotedProcesses } from '#infra/stack/owner.ts'
import { endProcess, readJson } from '#infra/stack/processes.ts'
import { removeServerData, stopLeftovers } from '#infra/stack/servers.ts'
import { CommandFailure, exitCodes, messageOf } from './command-failure.ts'
import { openProgress, withProgress } from './progress.ts'
import { endOfLog } from './role-process.ts'
import {
  dropAnnouncements,
  type PlatformFile,
  prepareRunDirectory,
  type RunDirectory,
  readPlatform,
  runningSupervisor,
} from './run-directory.ts'
import { describePlatform } from './sample-calls.ts'
import { settingsOf } from './settle-environment.ts'
import { listenForStop } from './stop-signals.ts'
import { supervise } from './supervisor.ts'

type UpMessage =
  | { kind: 'step' | 'note'; text: string }
  | { kind: 'live'; platform: PlatformFile }
  | { kind: 'failed'; text: string; exitCode: number }

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))
const PARENT_EVERY_MS = 1_000
const GRACE_MS = 60_000

export async function demo(directory: RunDirectory, environment: Environment): Promise<void> {
  const running = runningSupervisor(directory)
  if (running !== undefined) {
    throw new CommandFailure(
      `process ${running.pid} runs a platform from ${directory.root} already; run \`make down\` first`,
    )
  }
  const progress = openProgress(process.stderr)
  const stop = listenForStop(() => progress.step('stopping the platform'))
  const hasStarter = process.connected
  // Once the starter has left, this process's own output is the platform's log.
  let sendToStarter = hasStarter ? (message: UpMessage) => void process.send?.(message, () => {}) : undefined
  process.once('disconnect', () => {
    if (sendToStarter) stop.abort(new Error('the starter is gone'))
  })
  if (!hasStarter) {
    process.stdout.on('error', () => stop.abort(new Error('the output is no longer read')))
    endWithParent(stop)
  }
  const show = (kind: 'step' | 'note') => (text: string) =>
    sendToStarter ? sendToStarter({ kind, text }) : progress[kind](text)
  try {
    const steps = { step: show('step'), note: show('note') }
    await supervise({ environment, directory, progress: steps, signal: stop.signal }, platform => {
      progress.stop()
      if (!hasStarter) return showPlatform(platform, 'Ctrl-C stops it')
      progress.note(`live at ${platform.base_url}`)
      sendToStarter?.({ kind: 'live', platform })
      sendToStarter = undefined
    })
  } catch (error) {
    const exitCode = error instanceof CommandFailure ? error.exitCode : exitCodes.failed
    sendToStarter?.({ kind: 'failed', text: messageOf(error), exitCode })
    throw error
  } finally {
    progress.stop()
    if (process.connected) process.disconnect()
  }
  progress.note('everything is stopped; data and keys stay for the next start (`make clean` removes them)')
}

/** `make`, npm or a test runner that is killed does not reach its children. */
function endWithParent(stop: AbortController): void {
  const parent = process.ppid
  const look = () => process.ppid !== parent && stop.abort(new Error('the process that started this one is gone'))
  setInterval(look, PARENT_EVERY_MS).unref()
}

/** Starts the platform in the background, unless it runs already, and shows it once it is live. */
export async function up(directory: RunDirectory, environment: Environment): Promise<void> {
  const platform = alreadyRunning(directory, environment) ?? (await start(directory, environment))
  showPlatform(platform, '`make down` stops it')
}

function showPlatform(platform: PlatformFile, howToStop: string): void {
  process.stdout.write(`${describePlatform(platform)}\n${howToStop}\n`)
}

/** The platform that is live on the settings that are wanted; throws when another one runs. */
function alreadyRunning(directory: RunDirectory, environment: Environment): PlatformFile | undefined {
  const pid = runningSupervisor(directory)?.pid
  if (pid === undefined) return undefined
  const platform = readPlatform(directory)
  if (platform === undefined)
    throw new CommandFailure(`process ${pid} is starting or stopping the platform; wait, or run \`make down\``)
  const running = readJson<Record<string, string>>(directory.settingsFile) ?? {}
  const requested = settingsOf(environment)
  const different = Object.keys({ ...running, ...requested }).filter(name => running[name] !== requested[name])
  if (different.length > 0) {
    throw new CommandFailure(
      `a platform with another ${different.sort().join(', ')} runs at ${platform.base_url}; run \`make down\` first`,
    )
  }
  return platform
}

async function start(directory: RunDirectory, environment: Environment): Promise<PlatformFile> {
  prepareRunDirectory(directory)
  const logFile = join(directory.logs, 'platform.log')
  const log = openSync(logFile, 'a')
  const logStart = fstatSync(log).size
  const child = spawn(process.execPath, [MAIN, 'demo'], {
    env: environment,
    stdio: ['ignore', log, log, 'ipc'],
    detached: true,
  })
  closeSync(log)
  return withProgress(progress => {
    const stop = listenForStop(() => {
      progress.step('stopping')
      child.kill('SIGTERM')
    })
    return new Promise<PlatformFile>((resolve, reject) => {
      child.on('message', (message: UpMessage) => {
        if (message.kind === 'live') {
          child.disconnect()
          child.unref()
          resolve(message.platform)
        } else if (message.kind === 'failed') reject(new CommandFailure(message.text, message.exitCode))
        else progress[message.kind](message.text)
      })
      child.once('error', reject)
      child.once('exit', (code, signal) => {
        const how = `${signal ?? `exit code ${code}`}).${endOfLog(logFile, logStart)}`
        if (stop.signal.aborted)
          reject(new CommandFailure('stopped; nothing is left running', exitCodes.stoppedBySignal))
        else reject(new CommandFailure(`the platform ended while starting (${how}`))
      })
    })
  })
}

export async function down(directory: RunDirectory): Promise<void> {
  const names = await withProgress(async progress => {
    progress.step('stopping the platform')
    const owner = runningSupervisor(directory)
    if (owner !== undefined) await endProcess(owner, 'SIGTERM', GRACE_MS)
    const roles = await endNotedProcesses(directory.supervisor)
    const servers = await stopLeftovers(directory.servers)
    dropAnnouncements(directory)
    return [...(owner === undefined ? [] : ['the platform']), ...roles, ...servers]
  })
  console.error(names.length === 0 ? 'nothing was running' : `stopped: ${names.join(', ')}`)
}

/** Ends the platform and removes its data, logs and keys; data of servers that were given by address stays. */
export async function clean(directory: RunDirectory): Promise<void> {
  await down(directory)
  await removeServerData(directory.servers)
  const { root, ...paths } = directory
  for (const path of Object.values(paths)) rmSync(path, { recursive: true, force: true })
  console.error(`removed what ${root} held`)
}
