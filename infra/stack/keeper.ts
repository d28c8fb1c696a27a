/**
 * The keeper: the process that starts the servers and ends them when the supervisor is gone.
 *
 * Reads orders on its IPC channel, writes one identity file per server and answers with pids and exits.
 * Invariant: once the channel is closed - also by SIGKILL of the supervisor - every server is asked to end and,
 * after its grace, killed. It leads its own process group, so Ctrl-C in a terminal reaches neither it nor a server.
 * Must not decide anything about servers: commands arrive complete.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, rmSync } from 'node:fs'
import { identify, type ProcessIdentity, replaceFile, signalGroup } from './processes.ts'

/** A server's complete start order. */
export interface LaunchOrder {
  server: string
  command: string
  args: string[]
  environment: Record<string, string>
  directory: string
  logFile: string
  identityFile: string
  stopSignal: NodeJS.Signals
  graceMs: number
  uid?: number
  gid?: number
}

/** What the supervisor may ask of the keeper. */
export type KeeperOrder = { kind: 'launch'; order: LaunchOrder } | { kind: 'stop' }

/** What the keeper answers. */
export type KeeperReport =
  | { kind: 'launched'; server: string; pid: number; identity: ProcessIdentity | undefined }
  | { kind: 'refused'; server: string; reason: string }
  | { kind: 'ended'; server: string; how: string }

interface Kept {
  order: LaunchOrder
  identity: ProcessIdentity
  ended: Promise<void>
}

const kept: Kept[] = []
let stopping = false

function report(message: KeeperReport): void {
  if (process.connected) process.send?.(message)
}

function launch(order: LaunchOrder): void {
  if (stopping) {
    report({ kind: 'refused', server: order.server, reason: 'the stack is stopping' })
    return
  }
  const log = openSync(order.logFile, 'a')
  const child = spawn(order.command, order.args, {
    cwd: order.directory,
    env: order.environment,
    detached: true,
    stdio: ['ignore', log, log],
    uid: order.uid,
    gid: order.gid,
  })
  closeSync(log)
  child.once('error', error => report({ kind: 'refused', server: order.server, reason: error.message }))
  if (child.pid === undefined) return
  const ended = new Promise<void>(resolve => {
    child.once('exit', (code, signal) => {
      rmSync(order.identityFile, { force: true })
      report({ kind: 'ended', server: order.server, how: signal === null ? `exit code ${code}` : signal })
      resolve()
    })
  })
  // A child that was not waited for yet keeps its pid, so its identity can still be read.
  const identity = identify(child.pid)
  if (identity !== undefined) {
    const { stopSignal, graceMs } = order
    replaceFile(order.identityFile, JSON.stringify({ ...identity, stopSignal, graceMs }))
    kept.push({ order, identity, ended })
  }
  report({ kind: 'launched', server: order.server, pid: child.pid, identity })
}

async function end(one: Kept): Promise<void> {
  const kill = setTimeout(() => signalGroup(one.identity, 'SIGKILL'), one.order.graceMs)
  await one.ended
  clearTimeout(kill)
}

/** Signals in reverse order of start, then waits for all at once: no server needs another one to end. */
async function stop(): Promise<void> {
  if (stopping) return
  stopping = true
  const newestFirst = [...kept].reverse()
  for (const one of newestFirst) signalGroup(one.identity, one.order.stopSignal)
  await Promise.all(newestFirst.map(end))
  process.exit(0)
}

process.on('message', (message: KeeperOrder) => {
  if (message.kind === 'launch') launch(message.order)
  else void stop()
})
process.on('disconnect', () => void stop())
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void stop())
if (!process.connected) process.exit(1)
