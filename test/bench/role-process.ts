/** Invariant: reading a role's figures costs it one request, so it is done at the ends of a measurement and never within. */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { HostPorts } from '#infra/runtime/http-host.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { eventually, within } from '#test/harness/eventually.ts'

interface ProcessFigures {
  cpuSeconds: number
  residentMib: number
}

export interface RoleProcess {
  readonly name: string
  readonly pid: number
  readonly port: number
  readonly baseUrl: string
  figures(): Promise<ProcessFigures>
  /** The sum of a metric over all of its series. */
  metric(name: string): Promise<number>
  /** Resolves when every role says that it is ready. */
  ready(limitMs?: number): Promise<void>
  kill(): Promise<void>
  stop(): Promise<void>
}

export interface RoleStart {
  name: string
  roles: readonly RoleName[]
  environment: Record<string, string>
  /** Folder of its log. */
  logs: string
}

const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))
const LISTENING_LIMIT_MS = 120_000
const REQUEST_LIMIT_MS = 10_000
const LOG_LINES_SHOWN = 15
const MIB = 2 ** 20

/** Starts a process; resolves when its process listens. */
export async function startRoleProcess({ name, roles, environment, logs }: RoleStart): Promise<RoleProcess> {
  const logFile = join(logs, `${name}.log`)
  const log = openSync(logFile, 'a')
  const child = spawn(process.execPath, [MAIN, 'run', '--set-up-done', ...roles], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', log, log, 'ipc'],
  })
  closeSync(log)
  const ended = new Promise<void>(resolve => void child.once('exit', () => resolve()))
  const listening = new Promise<HostPorts>((resolve, reject) => {
    child.once('error', reject)
    child.once('message', message => resolve(message as HostPorts))
    void ended.then(() => reject(new Error(`${name} ended:\n${endOf(logFile)}`)))
  })
  // It may also end later, when nothing waits for its port any more.
  listening.catch(() => undefined)
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    child.kill(signal)
    await within(ended, `${name} to end`).catch(() => child.kill('SIGKILL'))
    await ended
  }
  try {
    const { port, operatorPort } = await within(listening, `${name} to listen`, LISTENING_LIMIT_MS)
    const [baseUrl, operatorUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${operatorPort}`]
    const pid = child.pid as number
    return {
      ...{ name, pid, port, baseUrl },
      ...figuresOf(name, operatorUrl),
      kill: () => end('SIGKILL'),
      stop: () => end('SIGTERM'),
    }
  } catch (error) {
    await end('SIGKILL')
    throw error
  }
}

const endOf = (logFile: string): string =>
  readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-LOG_LINES_SHOWN).join('\n')

function figuresOf(name: string, operatorUrl: string): Pick<RoleProcess, 'figures' | 'metric' | 'ready'> {
  const ask = (path: string) => fetch(operatorUrl + path, { signal: AbortSignal.timeout(REQUEST_LIMIT_MS) })
  const scrape = async (): Promise<string> => (await ask('/metrics')).text()
  return {
    async figures() {
      const text = await scrape()
      return {
        cpuSeconds: sumOf(text, 'process_cpu_seconds_total'),
        residentMib: sumOf(text, 'process_resident_memory_bytes') / MIB,
      }
    },
    metric: async metric => sumOf(await scrape(), metric),
    ready: async limitMs => {
      const isReady = async (): Promise<true> => {
        const answer = await ask('/readyz')
        const text = await answer.text()
        if (!answer.ok) throw new Error(text)
        return true
      }
      await eventually(isReady, `${name} to be ready`, limitMs)
    },
  }
}

/** Sums the series of a metric in Prometheus' text form; NaN when there is none. */
function sumOf(text: string, name: string): number {
  const values = text
    .split('\n')
    .map(line => /^([A-Za-z_:]+)(?:\{.*\})? (\S+)$/.exec(line))
    .flatMap(match => (match?.[1] === name ? [Number(match[2])] : []))
  return values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0)
}
