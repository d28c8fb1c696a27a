/**
 * A role as a process of its own, for tests that kill, freeze or restart it: `marketlog run <role>` on servers that are set up, with exactly
 * the given environment. The child never outlives the test process's own cleaning up, and `stop` rejects after an end by itself that was not
 * announced.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { HostPorts } from '#infra/runtime/http-host.ts'
import { eventually, within } from './eventually.ts'
import { MAIN } from './run-command.ts'

const LINES_KEPT = 20_000
const LINES_SHOWN = 20
/** A safety net. */
const LISTEN_LIMIT_MS = 120_000
const REQUEST_LIMIT_MS = 10_000
const MIB = 2 ** 20

interface Ending {
  code: number | null
  signal: NodeJS.Signals | null
}

export type SpawnedRole = Awaited<ReturnType<typeof spawnRole>>

/** Processes to be killed where the test process ends before it could stop them. */
const living = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

/** Starts a role, or several named with blanks between, as a process; resolves when it exists, not when it is ready. */
export async function spawnRole(role: string, environment: Record<string, string>) {
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
  const gone: Promise<never> = closed.then(() => {
    throw new Error(`${role} ended; its last lines:\n${lines.slice(-LINES_SHOWN).join('\n')}`)
  })
  gone.catch(() => undefined)
  let address: string | undefined
  const listening = Promise.race([once(child, 'message'), gone]).then(([message]) => {
    address = urlOf((message as HostPorts).port)
    return message as HostPorts
  })
  listening.catch(() => undefined)
  const ports = () => within(listening, `${role} to listen`, LISTEN_LIMIT_MS)
  await Promise.race([once(child, 'spawn'), ended])
  living.add(child)
  void ended.then(() => living.delete(child))
  if (child.pid === undefined) throw new Error(`${role} could not be started as a process`)
  const announced: AnnouncedEnd[] = []
  const sent = new Set<NodeJS.Signals>()
  const kill = (signal: NodeJS.Signals): void => {
    if (child.kill(signal)) sent.add(signal)
  }
  const line = async (pattern: RegExp): Promise<string> => {
    const seen = () => lines.find(one => pattern.test(one)) ?? (isSilent ? null : undefined)
    const found = await eventually(seen, `a line of ${role} like ${pattern}`)
    return found ?? gone
  }
  return {
    role,
    pid: child.pid,
    ended,
    kill,
    /** Resolves with the first line, already printed or to come, that the pattern matches. */
    line,
    /** The lines of both outputs so far, at most the last 20,000. */
    lines: (): readonly string[] => lines,
    address: () => address,
    /** Resolves with `http://127.0.0.1:<port>` when all has started and the process listens. */
    baseUrl: async () => urlOf((await ports()).port),
    /** Resolves with where readiness and metrics are answered, likewise. */
    operatorUrl: async () => urlOf((await ports()).operatorPort),
    ...operatorOf(role, ports, gone),
    /** Announces that the process ends by itself, after a line that the pattern matches. */
    expectEnd: (reason: RegExp) => void announced.push({ reason, isCertain: true }),
    /** Announces that it may do so. */
    allowEnd: (reason: RegExp) => void announced.push({ reason, isCertain: false }),
    /** SIGTERM; resolves when the process has ended. Rejects when it ended otherwise than was announced, or not in time. */
    async stop(): Promise<void> {
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

function operatorOf(role: string, ports: () => Promise<HostPorts>, gone: Promise<never>) {
  const ask = async (path: string): Promise<string> => {
    const url = urlOf((await ports()).operatorPort) + path
    const answer = await fetch(url, { signal: AbortSignal.timeout(REQUEST_LIMIT_MS) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return text
  }
  const metric = async (name: string, labels = /.*/): Promise<number> => {
    const series = (await ask('/metrics')).matchAll(/^([A-Za-z_:]+)(\{.*\})? (\S+)$/gm)
    const values = [...series].filter(([, one, its = '']) => one === name && labels.test(its))
    return values.length === 0 ? Number.NaN : values.reduce((sum, [, , , value]) => sum + Number(value), 0)
  }
  return {
    /** The sum of a metric over all of its series, or those whose labels the pattern matches; NaN where there is none. */
    metric,
    /** Resolves when every role says that it is ready; rejects when the process ends before. */
    async ready(limitMs?: number): Promise<void> {
      // One that has ended is not asked on.
      let isOver = false
      const isReady = async () => isOver || (await ask('/readyz').then(() => true))
      const over = gone.catch(error => {
        isOver = true
        throw error
      })
      await Promise.race([eventually(isReady, `${role} to be ready`, limitMs), over])
    },
    /** Costs it a request, so it is asked at the ends of a measurement and never within. */
    figures: async () => ({
      cpuSeconds: await metric('process_cpu_seconds_total'),
      residentMib: (await metric('process_resident_memory_bytes')) / MIB,
    }),
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
  const last = lines.slice(-LINES_SHOWN).join('\n')
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
