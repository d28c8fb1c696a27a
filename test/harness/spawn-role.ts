/**
 * A role as a process of its own, for tests that kill, freeze or restart it.
 *
 * Starts `marketlog run <role>` on servers that are set up, with exactly the given environment, and keeps
 * what it logs.
 * States: running -> ended by a signal of the test, by `stop`, or by itself. Invariant: the child never outlives the test
 * process's own cleaning up, a kill is a real signal, and `stop` rejects after an end by itself that was not announced.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { eventually, within } from './eventually.ts'

const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))
const LINES_KEPT = 20_000

interface Ending {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface SpawnedRole {
  readonly role: string
  readonly pid: number
  /** The lines of both outputs so far, at most the last 20,000. */
  lines(): readonly string[]
  /** Resolves with the first line, already printed or to come, that the pattern matches. */
  line(pattern: RegExp): Promise<string>
  /** Resolves with `http://127.0.0.1:<port>` when all has started and the process listens. */
  baseUrl(): Promise<string>
  /** Resolves with where readiness and metrics are answered, likewise. */
  operatorUrl(): Promise<string>
  /** Sends a signal; SIGKILL, SIGSTOP and SIGCONT included. */
  kill(signal: NodeJS.Signals): void
  /** Resolves when the process has ended, however. */
  readonly ended: Promise<Ending>
  /** Announces that the process ends by itself, after a line that the pattern matches. */
  expectEnd(reason: RegExp): void
  /** Announces that it may do so. */
  allowEnd(reason: RegExp): void
  /** SIGTERM; resolves when the process has ended. Rejects when it ended otherwise than was announced, or not in time. */
  stop(): Promise<void>
}

/** Processes to be killed where the test process ends before it could stop them. */
const living = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

/** Starts a role, or several named with blanks between, as a process; resolves when it exists, not when it is ready. */
export async function spawnRole(role: string, environment: Record<string, string>): Promise<SpawnedRole> {
  const child = spawn(process.execPath, [MAIN, 'run', ...role.split(' '), '--set-up-done'], {
    env: { PATH: process.env.PATH ?? '', ...environment },
    // The channel is its life line: a run that is killed leaves no role behind.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const lines = collectLines(child)
  const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }) as Ending)
  let isSilent = false
  // Unlike its exit, this comes after its last line.
  const closed = once(child, 'close').then(() => {
    isSilent = true
  })
  await Promise.race([once(child, 'spawn'), ended])
  living.add(child)
  void ended.then(() => living.delete(child))
  if (child.pid === undefined) throw new Error(`${role} could not be started as a process`)
  const announced: AnnouncedEnd[] = []
  const sent = new Set<NodeJS.Signals>()
  const kill = (signal: NodeJS.Signals): void => {
    if (child.kill(signal)) sent.add(signal)
  }
  const line: SpawnedRole['line'] = async pattern => {
    const seen = () => lines.find(one => pattern.test(one)) ?? (isSilent ? null : undefined)
    const found = await eventually(seen, `a line of ${role} like ${pattern}`)
    if (found === null) throw new Error(`${role} ended; its last lines:\n${lines.slice(-20).join('\n')}`)
    return found
  }
  let listening: { port: number; operator_port: number } | undefined
  // Known from its first line on, which a process that logs much does not keep.
  const ports = async () => {
    listening ??= JSON.parse(await line(/"port":\d+/)) as { port: number; operator_port: number }
    return listening
  }
  return {
    role,
    pid: child.pid,
    line,
    kill,
    ended,
    lines: () => lines,
    baseUrl: async () => urlOf((await ports()).port),
    operatorUrl: async () => urlOf((await ports()).operator_port),
    expectEnd: reason => void announced.push({ reason, isCertain: true }),
    allowEnd: reason => void announced.push({ reason, isCertain: false }),
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        kill('SIGCONT')
        kill('SIGTERM')
        // A signal that this does not count as sent: the process did not end as it was asked to.
        await within(ended, `${role} to stop`).catch(() => child.kill('SIGKILL'))
      }
      const ending = await ended
      await closed
      judgeEnd({ role, lines, ending, sent, announced })
    },
  }
}

const urlOf = (port: number): string => `http://127.0.0.1:${port}`

interface AnnouncedEnd {
  reason: RegExp
  /** Whether it must happen, rather than may. */
  isCertain: boolean
}

/** Throws when a process ended otherwise than was announced; a signal of the test announces its own end. */
function judgeEnd(run: {
  role: string
  lines: readonly string[]
  ending: Ending
  sent: ReadonlySet<NodeJS.Signals>
  announced: readonly AnnouncedEnd[]
}): void {
  const { role, lines, ending, sent, announced } = run
  const isOrdered = ending.signal === null ? sent.has('SIGTERM') && ending.code === 0 : sent.has(ending.signal)
  const wasSaid = ({ reason }: AnnouncedEnd): boolean => !isOrdered && lines.some(line => reason.test(line))
  const missing = announced.find(one => one.isCertain && !wasSaid(one))
  if (missing) throw new Error(`${role} did not end by itself for ${missing.reason}, which was announced`)
  if (isOrdered || announced.some(wasSaid)) return
  const last = lines.slice(-20).join('\n')
  throw new Error(
    `${role} ended by itself unannounced (${ending.signal ?? `code ${ending.code}`}); its last lines:\n${last}`,
  )
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
