/**
 * A server of a test's own, which it may freeze, kill, fill and start again without harm to other tests.
 *
 * Runs natively, through infra/stack, with a data folder of its own under the system's temporary folder. States: running
 * ⇄ frozen, running → killed → running …, closed. Invariant: a server that is started again has its data and its address;
 * a closed one has left no process, no mount and no file.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { postgresHomeElsewhere } from '#infra/stack/native/postgres.ts'
import { startNative } from '#infra/stack/native-start.ts'
import { identify, isAlive, type ProcessIdentity, signalGroup, waitForEnd } from '#infra/stack/processes.ts'
import type { ServerName, ServerTls, StartedServers } from '#infra/stack/running-servers.ts'
import { removeServerData } from '#infra/stack/servers.ts'

/** A server of its own. */
export interface OwnServer {
  readonly name: ServerName
  readonly addresses: Partial<ServerAddresses>
  /** Where the server keeps what it stores. */
  readonly storeDir: string
  /** The folder that is wholly its own. */
  readonly dataDir: string
  freeze(): void
  thaw(): void
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
  /** Resolves when it has ended by itself. */
  end(limitMs: number): Promise<void>
  isRunning(): boolean
  /** Starts it again; resolves when it answers. */
  start(): Promise<void>
  /** What it has logged so far. */
  log(): string
  close(): Promise<void>
}

/** How a server is opened. */
export interface OwnServerOptions {
  /** Gives its data a disk of this size; refused without the right to mount one. */
  diskMegabytes?: number
  /** Of Postgres. */
  tls?: ServerTls
}

const END_LIMIT_MS = 10_000

/** Where servers keep what they store, within their data folder. */
const STORES: Record<ServerName, string> = {
  kafka: 'kafka',
  schemaRegistry: 'schema-registry',
  redis: 'redis',
  clickhouse: 'clickhouse',
  postgres: 'postgres',
}

/** Starts a server of a test's own. */
export async function openOwnServer(name: ServerName, options: OwnServerOptions = {}): Promise<OwnServer> {
  const dataDir = mkdtempSync(join(tmpdir(), `marketlog-own-${name}-`))
  const storeDir = join(dataDir, STORES[name])
  for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part))
  const unmount = options.diskMegabytes === undefined ? () => undefined : mountDisk(storeDir, options.diskMegabytes)
  const shared = { dataDir, environment: process.env, say: () => undefined, signal: new AbortController().signal }
  let started: StartedServers | undefined
  let identity: ProcessIdentity | undefined
  let addresses: Partial<ServerAddresses> | undefined
  const start = async (): Promise<void> => {
    const running = await startNative({ ...shared, ...(options.tls && { postgresTls: options.tls }) }, [name])
    started = running
    const found = identify(running.pids[name] ?? 0)
    if (found === undefined) throw new Error(`${name} ended as soon as it had answered`)
    identity = found
    addresses ??= running.addresses
    if (JSON.stringify(running.addresses) !== JSON.stringify(addresses))
      throw new Error(`${name} has moved to another address`)
  }
  const close = async (): Promise<void> => {
    if (identity) signalGroup(identity, 'SIGCONT')
    await started?.stop()
    unmount()
    await removeServerData(dataDir)
  }
  try {
    await start()
  } catch (error) {
    await close()
    throw error
  }
  const signal = (sent: NodeJS.Signals): void => void (identity && signalGroup(identity, sent))
  const end = async (limitMs: number): Promise<void> => {
    if (identity && !(await waitForEnd(identity, limitMs))) throw new Error(`${name} runs on after ${limitMs} ms`)
  }
  return {
    ...{ name, addresses: addresses ?? {}, dataDir, end, close },
    // Postgres may have to keep its data where its own user can enter.
    storeDir: (name === 'postgres' && postgresHomeElsewhere(dataDir)) || storeDir,
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    async kill() {
      signal('SIGKILL')
      await end(END_LIMIT_MS)
    },
    isRunning: () => identity !== undefined && isAlive(identity),
    async start() {
      // The keeper of the former process goes with it.
      await started?.stop()
      await start()
    },
    log: () => readFileSync(join(dataDir, 'logs', `${name}.log`), 'utf8'),
  }
}

/** Whether this process may mount a disk of its own. */
export function mayMountDisks(): boolean {
  const dir = mkdtempSync(join(tmpdir(), 'marketlog-mount-'))
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', dir]).status === 0
  if (isMounted) spawnSync('umount', [dir])
  spawnSync('rmdir', [dir])
  return isMounted
}

function mountDisk(dir: string, megabytes: number): () => void {
  mkdirSync(dir)
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', dir], { encoding: 'utf8' })
  if (mounted.status !== 0) throw new Error(`no disk of ${megabytes} MB: ${mounted.stderr}`)
  return () => void spawnSync('umount', ['-l', dir])
}
