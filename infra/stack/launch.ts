/**
 * Starts a process that ends with this one.
 *
 * Writes the note of its identity. Invariant: when this process ends in whatever way, also by SIGKILL, the kernel sends the other
 * its stop signal, for which `setpriv` of util-linux asks in its place. It leads a process group of its own, so Ctrl-C in a
 * terminal does not reach it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, rmSync } from 'node:fs'
import { endProcess, identify, replaceFile } from './processes.ts'

/** A complete start order. */
export interface LaunchOrder {
  command: string
  args: string[]
  environment: Record<string, string>
  directory: string
  logFile: string
  noteFile: string
  stopSignal: NodeJS.Signals
  graceMs: number
  uid?: number
  gid?: number
}

/** A process that was started. */
export interface LaunchedProcess {
  pid: number
  /** How it has ended; undefined while it runs. */
  end(): string | undefined
  /** Asks it to end and, after its grace, kills it. */
  stop(): Promise<void>
}

/** Starts a process. */
export async function launch(order: LaunchOrder): Promise<LaunchedProcess> {
  const { stopSignal, graceMs, noteFile, uid, gid } = order
  const log = openSync(order.logFile, 'a')
  const child = spawn('setpriv', ['--pdeathsig', stopSignal, '--', order.command, ...order.args], {
    ...{ cwd: order.directory, env: order.environment, uid, gid },
    detached: true,
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  let how: string | undefined
  child.once('exit', (code, signal) => {
    how = signal ?? `exit code ${code}`
    rmSync(noteFile, { force: true })
  })
  await once(child, 'spawn').catch(error => {
    throw new Error(`setpriv, of the package util-linux, is needed to start it: ${error.message}`)
  })
  // This program may end while it runs.
  child.unref()
  const pid = child.pid as number
  const identity = identify(pid)
  if (identity !== undefined && how === undefined)
    replaceFile(noteFile, JSON.stringify({ ...identity, stopSignal, graceMs }))
  return {
    pid,
    end: () => how,
    stop: async () => {
      if (identity !== undefined) await endProcess(identity, stopSignal, graceMs)
      rmSync(noteFile, { force: true })
    },
  }
}
