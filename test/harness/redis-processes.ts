/**
 * Processes of Redis that are a test's own: servers and Sentinels, each of which listens in plain text and with TLS. Invariant: a process that
 * is started again has its data and its ports; a closed set has left no process and no file.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { type LaunchedProcess, launch } from '#infra/stack/launch.ts'
import type { ToolContext } from '#infra/stack/native/native-server.ts'
import { provideRedis } from '#infra/stack/native/redis.ts'
import { openPortBook, type PortBook } from '#infra/stack/ports.ts'
import { identify } from '#infra/stack/processes.ts'
import { redisAnswers, waitUntilReady } from '#infra/stack/readiness.ts'
import { provideCertificates } from './certificates.ts'
import { controlProcess, type OwnProcess } from './own-server.ts'

export type RedisProcess = Awaited<ReturnType<typeof open>>
export type RedisProcesses = Awaited<ReturnType<typeof openRedisProcesses>>

const END_LIMIT_MS = 10_000
const READY_LIMIT_MS = 30_000

/** Prepares a folder for processes; none runs yet. */
export async function openRedisProcesses() {
  const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-own-redis-'))
  for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part))
  const environment = process.env
  const context: ToolContext = {
    environment,
    cacheDir: cacheDirectory(environment),
    say: () => undefined,
    signal: new AbortController().signal,
  }
  const ports = openPortBook(dataDir)
  const running: RunningSet = new Map()
  const close = async (): Promise<void> => {
    // A frozen process does not end.
    for (const one of running.keys()) one.thaw()
    await Promise.all([...running.values()].map(one => one?.stop()))
    rmSync(dataDir, { recursive: true, force: true })
  }
  try {
    const command = await provideRedis(context)
    const certificates = await provideCertificates(context, join(dataDir, 'tls'))
    const tls = {
      'tls-cert-file': certificates.certificate,
      'tls-key-file': certificates.key,
      'tls-ca-cert-file': certificates.ca,
      'tls-auth-clients': 'optional',
    }
    const set: ProcessSet = { dataDir, environment, command, ports, tls, running }
    const kept = ['--save', '', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction']
    kept.push('--repl-diskless-sync-delay', '0')
    return {
      certificates,
      close,
      freePort: ports,
      /** Opens one with options of its command line; a Sentinel with lines of its file. */
      open: (name: string, args: readonly string[]) => open(set, name, () => [...kept, ...args]),
      openSentinel: (name: string, lines: readonly string[]) =>
        open(set, name, home => {
          // It writes what it learns into its file.
          const file = join(home, 'sentinel.conf')
          writeFileSync(file, `${lines.join('\n')}\n`)
          return [file, '--sentinel']
        }),
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Each with its process of now. */
type RunningSet = Map<OwnProcess, LaunchedProcess | undefined>

interface ProcessSet {
  dataDir: string
  environment: Record<string, string | undefined>
  command: string
  ports: PortBook
  tls: Record<string, string>
  running: RunningSet
}

async function open(
  { dataDir, environment, command, ports, tls, running }: ProcessSet,
  name: string,
  argsOf: (home: string) => string[],
) {
  const [port, tlsPort] = [await ports(name), await ports(`${name}-tls`)]
  const home = join(dataDir, name)
  mkdirSync(home)
  const given = { ...tls, port, 'tls-port': tlsPort, bind: '127.0.0.1', dir: home, daemonize: 'no' }
  // What a caller names comes last and counts.
  const [own, asked] = [Object.entries(given).flatMap(([key, value]) => [`--${key}`, String(value)]), argsOf(home)]
  const [file, ...rest] = asked
  const args = file?.startsWith('--') ? [...own, ...asked] : [file as string, ...rest, ...own]
  const logFile = join(dataDir, 'logs', `${name}.log`)
  const control: OwnProcess = controlProcess(name, () => identify(running.get(control)?.pid ?? 0))
  running.set(control, undefined)
  const start = async (): Promise<void> => {
    const process = launch({
      command,
      args,
      directory: home,
      logFile,
      noteFile: join(dataDir, 'pids', `${name}.json`),
      environment: { PATH: environment.PATH ?? '' },
      stopSignal: 'SIGTERM' as const,
      graceMs: END_LIMIT_MS,
    })
    running.set(control, process)
    await waitUntilReady({
      isReady: () => redisAnswers(port),
      limitMs: READY_LIMIT_MS,
      signal: new AbortController().signal,
      hopeless: () => process.ending()?.how,
    })
  }
  await start()
  const { freeze, thaw, kill } = control
  return {
    freeze,
    thaw,
    kill,
    name,
    tlsPort,
    port,
    start,
  }
}
