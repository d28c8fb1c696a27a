/**
 * Starts a process of a platform, which ends with this one.
 *
 * Writes its log and the note of its identity. Invariant: when this process ends in whatever way, also by SIGKILL, the kernel sends
 * the other its stop signal, for which `setpriv` of util-linux asks in its place; one that has a channel ends when that closes.
 * It leads a process group of its own, so Ctrl-C in a terminal does not reach it.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { endProcess, identify, replaceFile } from './processes.ts'

export interface LaunchOrder {
  command: string
  args: string[]
  environment: Readonly<Record<string, string | undefined>>
  directory?: string
  logFile: string
  noteFile: string
  stopSignal: NodeJS.Signals
  graceMs: number
  uid?: number
  gid?: number
  /** Gives it a channel, and takes what it sends. */
  onMessage?: (message: unknown) => void
}

interface Ending {
  how: string
  code: number | null
}

export type LaunchedProcess = ReturnType<typeof launch>

const LOG_KEPT_BYTES = 20 * 1024 * 1024

export function launch(order: LaunchOrder) {
  const { stopSignal, graceMs, noteFile, onMessage, uid, gid } = order
  rotateLog(order.logFile)
  const log = openSync(order.logFile, 'a')
  const words = [order.command, ...order.args]
  const [command = '', ...args] = onMessage ? words : ['setpriv', '--pdeathsig', stopSignal, '--', ...words]
  const child = spawn(command, args, {
    cwd: order.directory,
    env: order.environment,
    uid,
    gid,
    detached: true,
    stdio: ['ignore', log, log, ...(onMessage ? (['ipc'] as const) : [])],
  })
  closeSync(log)
  // It does not keep this program alive; its channel does.
  child.unref()
  if (onMessage) child.on('message', onMessage)
  const identity = identify(child.pid ?? 0)
  if (identity) replaceFile(noteFile, JSON.stringify({ ...identity, stopSignal, graceMs }))
  let ending: Ending | undefined
  const ended = new Promise<Ending>(resolve => {
    const end = (as: Ending): void => {
      ending = as
      rmSync(noteFile, { force: true })
      resolve(as)
    }
    child.once('error', error => end({ how: error.message, code: null }))
    child.once('exit', (code, signal) => end({ how: signal ?? `exit code ${code}`, code }))
  })
  return {
    /** 0 where it could not be started. */
    pid: child.pid ?? 0,
    ended,
    ending: () => ending,
    /** Asks it to end and, after its grace, kills it. */
    stop: async (): Promise<void> => void (identity && (await endProcess(identity, stopSignal, graceMs))),
  }
}

/** Begins a log again that has grown long, and resolves with its length: what an earlier run wrote explains nothing. */
export function rotateLog(path: string): number {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size <= LOG_KEPT_BYTES) return size
  renameSync(path, `${path}.1`)
  return 0
}
