/**
 * A whole platform as a user starts it: through the command line, with a run directory and a port of its own.
 *
 * Starts `marketlog up --detach` and other commands as child processes, removes the run directory at the end.
 * Invariant: addresses of the test run's own servers never reach it, so it provides its own; `remaining` finds every
 * process that names the run directory, whatever started it.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PlatformFile } from '#services/cli/run-directory.ts'

/** How a command ended and what it wrote. */
export interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

/** A platform's place: directory, port and the commands that work on it. */
export interface PlatformPlace {
  readonly runDir: string
  readonly port: number
  /** Runs a command of `marketlog` to its end. */
  command(args: string[], env?: Record<string, string>): Promise<Finished>
  /** The announcement of the live platform; throws when there is none. */
  platform(): PlatformFile
  /** GETs a JSON answer of the API with the key of a tier. */
  get(path: string, query?: Record<string, string | number>, tier?: keyof PlatformFile['keys']): Promise<Answer>
  /** Processes that name the run directory in their command line or environment. */
  remaining(): string[]
}

/** An answer of the API. */
export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: each test narrows the answer by what it asserts.
  body: any
}

const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))
const COMMAND_LIMIT_MS = 300_000
const KEPT_VARIABLES = ['PATH', 'HOME', 'JAVA_HOME', 'XDG_CACHE_HOME', 'MARKETLOG_CACHE', 'MARKETLOG_INSTALL', 'LANG']

/** Finds a place; nothing runs there yet. */
export async function findPlace(market: string): Promise<PlatformPlace> {
  const runDir = mkdtempSync(join(tmpdir(), 'marketlog-e2e-'))
  const port = await freePort()
  const kept = Object.fromEntries(
    KEPT_VARIABLES.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : [])),
  )
  const environment = { ...kept, MARKETLOG_RUN_DIR: runDir, PORT: String(port), MARKET: market }
  const platform = () => JSON.parse(readFileSync(join(runDir, 'platform.json'), 'utf8')) as PlatformFile
  return {
    runDir,
    port,
    platform,
    command: (args, env = {}) => runToEnd([MAIN, ...args], { ...environment, ...env }),
    async get(path, query = {}, tier = 'quant') {
      const { base_url, keys } = platform()
      const parameters = new URLSearchParams()
      for (const [name, value] of Object.entries(query)) parameters.set(name, String(value))
      const response = await fetch(`${base_url}/v1${path}?${parameters}`, {
        headers: { authorization: `Bearer ${keys[tier]}` },
        signal: AbortSignal.timeout(20_000),
      })
      return { status: response.status, body: await response.json() }
    },
    remaining: () => processesNaming(runDir),
  }
}

/** A port that was free a moment ago, below those that the kernel gives to outgoing connections. */
async function freePort(): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>()
  const probe = createServer().listen({ port: 0, host: '127.0.0.1' }, () => {
    const address = probe.address()
    probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
  })
  return promise
}

function runToEnd(args: string[], environment: Record<string, string | undefined>): Promise<Finished> {
  const child = spawn(process.execPath, args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
  const written = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    written.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    written.stderr += text
  })
  const limit = setTimeout(() => child.kill('SIGKILL'), COMMAND_LIMIT_MS)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => {
      clearTimeout(limit)
      resolve({ code, ...written })
    })
  })
}

function processesNaming(text: string): string[] {
  const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name) && Number(name) !== process.pid)
  return pids.flatMap(pid => {
    const command = readProcess(pid, 'cmdline')
    const names = command.includes(text) || readProcess(pid, 'environ').includes(text)
    return names ? [`${pid} ${command.replaceAll('\0', ' ').slice(0, 160)}`] : []
  })
}

/** A process that has ended meanwhile, or a zombie, has nothing to read. */
function readProcess(pid: string, file: 'cmdline' | 'environ'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
