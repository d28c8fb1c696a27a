/**
 * A whole platform as a user starts it: through the command line, with a run directory and a port of its own.
 *
 * Starts `marketlog up` and other commands as child processes, removes the run directory at the end.
 * Addresses of the test run's own servers never reach it, so it provides its own; `remaining` finds every process that
 * names the run directory.
 */
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPortBook } from '#infra/stack/ports.ts'
import type { PlatformFile } from '#services/cli/run-directory.ts'
import { type Finished, runCommand } from '#test/harness/run-command.ts'

export type OwnPlatform = Awaited<ReturnType<typeof prepareOwnPlatform>>

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: each test narrows the answer by what it asserts.
  body: any
}

const INHERITED = ['PATH', 'HOME', 'JAVA_HOME', 'XDG_CACHE_HOME', 'MARKETLOG_CACHE', 'MARKETLOG_INSTALL', 'LANG']

/** Prepares a directory and a port; nothing runs yet. */
export async function prepareOwnPlatform(market: string) {
  const runDir = mkdtempSync(join(tmpdir(), 'marketlog-e2e-'))
  const port = await openPortBook(runDir)('platform')
  const variables = Object.fromEntries(
    INHERITED.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : [])),
  )
  const environment = { ...variables, MARKETLOG_RUN_DIR: runDir, PORT: String(port), MARKET: market }
  const platform = () => JSON.parse(readFileSync(join(runDir, 'platform.json'), 'utf8')) as PlatformFile
  const command = (args: string[], env: Record<string, string> = {}): Promise<Finished> =>
    runCommand(args, { ...environment, ...env })
  return {
    runDir,
    port,
    environment,
    command,
    /** The announcement of the live platform; throws when there is none. */
    platform,
    /** `up` on a market of the test's own, or the one that it was prepared for; resolves with its end, which may be a failure. */
    up(own?: object, env: Record<string, string> = {}): Promise<Finished> {
      const file = join(runDir, 'market.json')
      if (own) writeFileSync(file, JSON.stringify(own))
      return command(['up'], { ...(own && { MARKET: file }), ...env })
    },
    /** Ends it and removes all that it had. */
    async remove(): Promise<void> {
      await command(['down'])
      await command(['clean'])
      rmSync(runDir, { recursive: true, force: true })
    },
    /** GETs a JSON answer of the API with the key of a tier. */
    async get(
      path: string,
      query: Record<string, string | number> = {},
      tier: keyof PlatformFile['keys'] = 'quant',
    ): Promise<Answer> {
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

/** Processes that work in one of the folders, or name it in their command line or environment. */
export function processesNaming(...folders: string[]): { pid: number; command: string }[] {
  const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name) && Number(name) !== process.pid)
  return pids.flatMap(pid => {
    try {
      const [command, environment] = ['cmdline', 'environ'].map(file => readFileSync(`/proc/${pid}/${file}`, 'utf8'))
      const texts = [command, environment, readlinkSync(`/proc/${pid}/cwd`)].join('\0')
      const isNamed = folders.some(folder => texts.includes(folder))
      return isNamed ? [{ pid: Number(pid), command: `${command}`.replaceAll('\0', ' ').slice(0, 160) }] : []
    } catch {
      // One that has ended meanwhile, or a zombie, has nothing to read.
      return []
    }
  })
}
