/**
 * Processes of Redis that are a test's own: servers and Sentinels, which it may freeze, kill and start again.
 *
 * Runs natively, through the keeper of infra/stack, in a folder of its own under the system's temporary folder. Each process
 * listens in plain text and with TLS, on ports that it keeps. Invariant: a process that is started again has its data and
 * its ports; a closed set has left no process and no file.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Certificates, provideCertificates } from '#infra/stack/certificates.ts'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { type Keeper, startKeeper } from '#infra/stack/keeper-client.ts'
import type { ToolContext } from '#infra/stack/native/native-server.ts'
import { provideRedis } from '#infra/stack/native/redis.ts'
import { openPortBook, type PortBook } from '#infra/stack/ports.ts'
import { identify } from '#infra/stack/processes.ts'
import { redisAnswers, waitUntilReady } from '#infra/stack/readiness.ts'
import { controlProcess, type OwnProcess } from './own-server.ts'

export interface RedisProcess extends Pick<OwnProcess, 'freeze' | 'thaw' | 'kill'> {
  readonly name: string
  /** In plain text. */
  readonly port: number
  readonly tlsPort: number
  /** Starts it, again with its data; resolves when it answers. */
  start(): Promise<void>
  log(): string
}

export interface RedisProcesses {
  /** Starts one with options of its command line; a Sentinel with lines of its file. */
  open(name: string, args: readonly string[]): Promise<RedisProcess>
  openSentinel(name: string, lines: readonly string[]): Promise<RedisProcess>
  /** A port that none of them has. */
  freePort(purpose: string): Promise<number>
  readonly certificates: Certificates
  close(): Promise<void>
}

const END_LIMIT_MS = 10_000
const READY_LIMIT_MS = 30_000

/** Prepares a folder for processes; none runs yet. */
export async function openRedisProcesses(): Promise<RedisProcesses> {
  const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-own-redis-'))
  for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part))
  const environment = process.env
  const context: ToolContext = {
    ...{ environment, cacheDir: cacheDirectory(environment), say: () => undefined },
    signal: new AbortController().signal,
  }
  const keeper = startKeeper(dataDir, environment)
  const ports = openPortBook(dataDir)
  const running = new Set<OwnProcess>()
  const close = async (): Promise<void> => {
    // A frozen process does not end.
    for (const one of running) one.thaw()
    await keeper.stop()
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
    const set: ProcessSet = { dataDir, environment, command, keeper, ports, tls, running }
    const kept = ['--save', '', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction']
    kept.push('--repl-diskless-sync-delay', '0')
    return {
      ...{ certificates, close, freePort: ports },
      open: (name, args) => launch(set, name, () => [...kept, ...args]),
      openSentinel: (name, lines) =>
        launch(set, name, home => {
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

interface ProcessSet {
  dataDir: string
  environment: Record<string, string | undefined>
  command: string
  keeper: Keeper
  ports: PortBook
  tls: Record<string, string>
  running: Set<OwnProcess>
}

async function launch(
  { dataDir, environment, command, keeper, ports, tls, running }: ProcessSet,
  name: string,
  argsOf: (home: string) => string[],
): Promise<RedisProcess> {
  const [port, tlsPort] = [await ports(name), await ports(`${name}-tls`)]
  const home = join(dataDir, name)
  mkdirSync(home)
  const given = { ...tls, port, 'tls-port': tlsPort, bind: '127.0.0.1', dir: home, daemonize: 'no' }
  // What a caller names comes last and counts.
  const [own, asked] = [Object.entries(given).flatMap(([key, value]) => [`--${key}`, String(value)]), argsOf(home)]
  const [file, ...rest] = asked
  const args = file?.startsWith('--') ? [...own, ...asked] : [file as string, ...rest, ...own]
  const logFile = join(dataDir, 'logs', `${name}.log`)
  let pid: number | undefined
  const control = controlProcess(name, () => (pid === undefined ? undefined : identify(pid)))
  running.add(control)
  const start = async (): Promise<void> => {
    pid = await keeper.launch({
      ...{ server: name, command, args, directory: home, logFile },
      identityFile: join(dataDir, 'pids', `${name}.json`),
      environment: { PATH: environment.PATH ?? '' },
      ...{ stopSignal: 'SIGTERM' as const, graceMs: END_LIMIT_MS },
    })
    await waitUntilReady({
      ...{ isReady: () => redisAnswers(port), limitMs: READY_LIMIT_MS, say: () => undefined },
      signal: new AbortController().signal,
      hopeless: () => keeper.endOf(name),
    })
  }
  await start()
  return { ...{ ...control, name, port, tlsPort, start }, log: () => readFileSync(logFile, 'utf8') }
}
