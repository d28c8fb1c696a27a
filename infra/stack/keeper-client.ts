/**
 * The supervisor's side of the keeper: launches servers through it and is notified of their ends.
 *
 * Starts the keeper, writes its identity file. Invariant: when this process ends in whatever way, the keeper's channel
 * closes and the keeper ends the servers.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { closeSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { KeeperOrder, KeeperReport, LaunchOrder } from './keeper.ts'
import { endProcess, identify, type ProcessIdentity, replaceFile } from './processes.ts'

const KEEPER = fileURLToPath(new URL('./keeper.ts', import.meta.url))
// Longer than the longest grace of a server.
const STOP_LIMIT_MS = 25_000
const ORPHAN_GRACE_MS = 5_000

/** A running keeper. */
export interface Keeper {
  /** Starts a server and returns its pid. */
  launch(order: LaunchOrder): Promise<number>
  /** How a server that was launched has ended; undefined while it runs. */
  endOf(server: string): string | undefined
  /** Called when a server, or `keeper` itself, ends without being asked to. */
  onUnexpectedEnd(listener: (name: string, how: string) => void): void
  /** Lets this program end while the servers run: its end is what stops them. */
  letGo(): void
  /** Ends all servers and the keeper, within a bounded time. */
  stop(): Promise<void>
}

/** Starts the keeper of a data directory. */
export function startKeeper(dataDir: string, environment: Record<string, string | undefined>): Keeper {
  const { child, identity, forget } = forkKeeper(dataDir, environment)
  const ends = new Map<string, string>()
  const launched = new Map<string, ProcessIdentity>()
  const waiting = new Map<string, { resolve: (pid: number) => void; reject: (error: Error) => void }>()
  let listener: (name: string, how: string) => void = () => {}
  let stopping: Promise<void> | undefined

  const refuse = (server: string, reason: string) => {
    waiting.get(server)?.reject(new Error(reason))
    waiting.delete(server)
  }
  const refuseAll = (reason: string) => {
    for (const server of [...waiting.keys()]) refuse(server, reason)
  }

  child.on('message', (report: KeeperReport) => {
    if (report.kind === 'launched') {
      if (report.identity !== undefined) launched.set(report.server, report.identity)
      waiting.get(report.server)?.resolve(report.pid)
      waiting.delete(report.server)
    } else if (report.kind === 'refused') refuse(report.server, report.reason)
    else {
      ends.set(report.server, report.how)
      if (stopping === undefined) listener(report.server, report.how)
    }
  })
  child.on('error', error => refuseAll(`the keeper process could not be started: ${error.message}`))
  child.on('exit', (code, signal) => {
    forget()
    refuseAll('the keeper process ended')
    if (stopping === undefined) listener('keeper', signal ?? `exit code ${code}`)
  })

  async function stop(): Promise<void> {
    child.ref()
    child.channel?.ref()
    if (child.connected) child.send({ kind: 'stop' } satisfies KeeperOrder, () => {})
    if (identity !== undefined) await endProcess(identity, 'SIGTERM', STOP_LIMIT_MS)
    // Only a keeper that was killed leaves any of these.
    await Promise.all([...launched.values()].map(server => endProcess(server, 'SIGTERM', ORPHAN_GRACE_MS)))
    forget()
  }

  return {
    launch: order =>
      new Promise((resolve, reject) => {
        ends.delete(order.server)
        waiting.set(order.server, { resolve, reject })
        child.send({ kind: 'launch', order } satisfies KeeperOrder, error => {
          if (error !== null) refuse(order.server, `the keeper process does not answer: ${error.message}`)
        })
      }),
    letGo: () => {
      child.unref()
      child.channel?.unref()
    },
    endOf: server => ends.get(server),
    onUnexpectedEnd: given => {
      listener = given
    },
    stop: () => {
      stopping ??= stop()
      return stopping
    },
  }
}

interface ForkedKeeper {
  child: ChildProcess
  identity: ProcessIdentity | undefined
  /** Removes the note of its identity. */
  forget: () => void
}

function forkKeeper(dataDir: string, environment: Record<string, string | undefined>): ForkedKeeper {
  const log = openSync(join(dataDir, 'logs/keeper.log'), 'a')
  // The argument is for people who read a process list.
  const child = fork(KEEPER, [dataDir], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
    env: environment,
    execArgv: [],
  })
  closeSync(log)
  const identity = child.pid === undefined ? undefined : identify(child.pid)
  const file = join(dataDir, 'pids/keeper.json')
  const graceMs = STOP_LIMIT_MS
  if (identity !== undefined) replaceFile(file, JSON.stringify({ ...identity, stopSignal: 'SIGTERM', graceMs }))
  return { child, identity, forget: () => rmSync(file, { force: true }) }
}
