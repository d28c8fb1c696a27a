/**
 * A role as a process of its own, for tests that kill, freeze or restart it.
 *
 * Starts `marketlog run <role>` on servers that are set up, with exactly the given environment, and keeps
 * what it logs.
 * Invariant: the child never outlives the test process's own cleaning up, and a kill is a real signal.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { eventually, within } from './eventually.ts'

const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))
const STOP_LIMIT_MS = 20_000
const LINES_KEPT = 20_000

/** How a process ended. */
export interface Ending {
  code: number | null
  signal: NodeJS.Signals | null
}

/** A role that runs as a process. */
export interface SpawnedRole {
  readonly role: string
  readonly pid: number
  /** The lines of both outputs so far, at most the last 20,000. */
  lines(): readonly string[]
  /** Resolves with the first line, already printed or to come, that the pattern matches. */
  line(pattern: RegExp, limitMs: number): Promise<string>
  /** Resolves with `http://127.0.0.1:<port>` when all has started and the process listens. */
  baseUrl(limitMs: number): Promise<string>
  /** Sends a signal; SIGKILL, SIGSTOP and SIGCONT included. */
  kill(signal: NodeJS.Signals): void
  /** Resolves when the process has ended, however. */
  readonly ended: Promise<Ending>
  /** SIGTERM, then SIGKILL after the limit; resolves when the process has ended. */
  stop(): Promise<void>
}

/** Starts a role, or several named with blanks between, as a process; resolves when it exists, not when it is ready. */
export async function spawnRole(role: string, environment: Record<string, string>): Promise<SpawnedRole> {
  const child = spawn(process.execPath, [MAIN, 'run', ...role.split(' '), '--set-up-done'], {
    env: { PATH: process.env.PATH ?? '', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines = collectLines(child)
  const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }) as Ending)
  let isSilent = false
  // Unlike its exit, this comes after its last line.
  child.once('close', () => {
    isSilent = true
  })
  await Promise.race([once(child, 'spawn'), ended])
  if (child.pid === undefined) throw new Error(`${role} could not be started as a process`)
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  const line: SpawnedRole['line'] = async (pattern, limitMs) => {
    const seen = () => lines.find(one => pattern.test(one)) ?? (isSilent ? null : undefined)
    const found = await eventually(seen, limitMs, `a line of ${role} like ${pattern}`)
    if (found === null) throw new Error(`${role} ended; its last lines:\n${lines.slice(-20).join('\n')}`)
    return found
  }
  return {
    role,
    pid: child.pid,
    lines: () => lines,
    line,
    baseUrl: async limitMs => {
      const { port } = JSON.parse(await line(/"port":\d+/, limitMs)) as { port: number }
      return `http://127.0.0.1:${port}`
    },
    kill: signal => void child.kill(signal),
    ended,
    async stop() {
      if (hasEnded()) return
      child.kill('SIGCONT')
      child.kill('SIGTERM')
      await within(ended, STOP_LIMIT_MS, `${role} to stop`).catch(() => child.kill('SIGKILL'))
      await ended
    },
  }
}

function collectLines(child: ChildProcess): string[] {
  const lines: string[] = []
  for (const stream of [child.stdout, child.stderr]) {
    let open = ''
    stream?.setEncoding('utf8').on('data', (text: string) => {
      const parts = (open + text).split('\n')
      open = parts.pop() ?? ''
      lines.push(...parts)
      if (lines.length > LINES_KEPT) lines.splice(0, lines.length - LINES_KEPT)
    })
  }
  return lines
}
