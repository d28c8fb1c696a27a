/**
 * One child process of the supervisor: a group of roles, restarted when it ends by itself.
 *
 * States: running -> (ended by itself) waiting -> running; any -> stopping -> ended. Restarts wait longer each time and are
 * bounded; a child that stayed up long enough resets the count. A child that Kafka or the registry refuses (exit code 69) before
 * it ever ran is given up at once; later, when a right or a certificate has been withdrawn, it is restarted every half a minute
 * without end, which is reported once: the other groups go on, and it recovers when the operator has fixed that.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { HostPorts } from '#infra/runtime/http-host.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import { type LaunchedProcess, launch, rotateLog } from '#infra/stack/launch.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import type { RoleName } from './roles.ts'
import type { RunDirectory } from './run-directory.ts'

export type RoleProcess = ReturnType<typeof keepRunning>

interface RoleProcessOptions {
  /** Roles that share the process. */
  group: { name: string; roles: readonly RoleName[] }
  environment: Environment
  directory: RunDirectory
  report: (line: string) => void
  onListening: () => void
  /** Called when the group has failed too often to be started again. */
  onGivenUp: (error: Error) => void
  /** Between tries of a group that is refused. */
  refusedPauseMs?: number
}

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))
const GRACE_MS = 25_000
const FIRST_BACKOFF_MS = 500
const LONGEST_BACKOFF_MS = 15_000
const ATTEMPTS = 6
const STEADY_AFTER_MS = 60_000
const REFUSED_PAUSE_MS = 30_000
const LOG_TAIL_LINES = 6
const LINE_LENGTH = 400

export function keepRunning(options: RoleProcessOptions) {
  const { group, refusedPauseMs = REFUSED_PAUSE_MS } = options
  const logFile = join(options.directory.logs, `${group.name}.log`)
  const stopping = new AbortController()
  const logStart = rotateLog(logFile)
  let ports: HostPorts | undefined
  let restarts = 0
  let hasListened = false
  let isRefused = false
  let current: LaunchedProcess | undefined

  async function keep(): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted; restarts++) {
      const startedAt = performance.now()
      current = launch({
        command: process.execPath,
        args: [MAIN, 'run', '--set-up-done', ...group.roles],
        environment: options.environment,
        logFile,
        noteFile: join(options.directory.supervisor, 'pids', `${group.name}.json`),
        stopSignal: 'SIGTERM',
        graceMs: GRACE_MS,
        onMessage(message) {
          ports = message as HostPorts
          hasListened = true
          options.onListening()
        },
      })
      const { how, code } = await current.ended
      ports = undefined
      if (stopping.signal.aborted) return
      const wasSteady = performance.now() - startedAt > STEADY_AFTER_MS
      if (code === exitCodes.serverUnavailable) {
        const refused = `${group.name} is refused (${how}).${endOfLog(logFile, logStart)}`
        if (!hasListened) return options.onGivenUp(new CommandFailure(refused, code))
        if (!isRefused || wasSteady)
          options.report(`${refused}\n${group.name} is tried again every ${refusedPauseMs / 1000} s`)
        isRefused = true
        await pause(refusedPauseMs, undefined, { signal: stopping.signal }).catch(() => {})
        continue
      }
      isRefused = false
      failures = wasSteady ? 1 : failures + 1
      const last = `${group.name} ended ${failures} times (last: ${how}).${endOfLog(logFile, logStart)}`
      if (failures >= ATTEMPTS) return options.onGivenUp(new Error(last))
      const backoffMs = Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), LONGEST_BACKOFF_MS)
      options.report(`${group.name} ended (${how}); starting it again in ${backoffMs / 1000} s, its log is ${logFile}`)
      await pause(backoffMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
  }

  const loop = keep()
  return {
    group,
    pid: () => current?.pid,
    /** Where it listens; undefined while it starts. */
    ports: () => ports,
    restarts: () => restarts,
    /** The last warnings of one of its roles since the start, quoted below a message. */
    warnings: (role: RoleName): string => endOfLog(logFile, logStart, line => line.startsWith(`warn: ${role}: `)),
    async stop(): Promise<void> {
      stopping.abort()
      await current?.stop()
      await loop
    },
  }
}

/** The end of a log from a length on, quoted below a message; empty when nothing was written since. */
export function endOfLog(path: string, from = 0, isShown: (line: string) => boolean = Boolean): string {
  const written = existsSync(path) ? readFileSync(path).subarray(from).toString() : ''
  const lines = [...new Set(written.split('\n').map(readable).filter(isShown))].slice(-LOG_TAIL_LINES)
  return lines.length === 0 ? '' : ` The end of its log, ${path}:\n  ${lines.join('\n  ')}`
}

function readable(line: string): string {
  try {
    const { level, role, msg, provider, side, detail, err } = JSON.parse(line) as Record<string, unknown>
    const message = (err as { message?: string } | undefined)?.message
    const texts = [`${level}`, role, msg, provider, side, detail, message]
    return texts.filter(Boolean).join(': ').slice(0, LINE_LENGTH)
  } catch {
    return line.slice(0, LINE_LENGTH)
  }
}
