/**
 * A server of a test's own, which it may freeze, kill, fill and start again without harm to other tests. Invariant: a server that is started
 * again has its data and its address; a closed one has left no process, no mount and no file.
 */
import { spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PrepareServer } from '#infra/stack/native/native-server.ts'
import { postgresHomeElsewhere } from '#infra/stack/native/postgres.ts'
import type { NativeServers, ServerName } from '#infra/stack/native-start.ts'
import { NATIVE_SERVERS, startNative } from '#infra/stack/native-start.ts'
import {
  identify,
  isAlive,
  type ProcessIdentity,
  replaceFile,
  signalGroup,
  waitForEnd,
} from '#infra/stack/processes.ts'
import { removeServerData } from '#infra/stack/servers.ts'
import type { Certificates } from './certificates.ts'

export type OwnProcess = ReturnType<typeof controlProcess>

export type OwnServer = Awaited<ReturnType<typeof openOwnServer>>

export interface OwnServerOptions {
  /** Gives its data a disk of this size; refused without the right to mount one. */
  diskMegabytes?: number
  /** Of Postgres. */
  tls?: Pick<Certificates, 'ca' | 'certificate' | 'key'>
}

const END_LIMIT_MS = 30_000

/** Signals the process that a name stands for now; one that is gone gets none. */
export function controlProcess(name: string, identity: () => ProcessIdentity | undefined) {
  const signal = (sent: NodeJS.Signals): void => {
    const process = identity()
    if (process) signalGroup(process, sent)
  }
  const end = async (limitMs: number): Promise<void> => {
    const process = identity()
    if (process && !(await waitForEnd(process, limitMs))) throw new Error(`${name} runs on after ${limitMs} ms`)
  }
  const endBy = (sent: NodeJS.Signals): Promise<void> => {
    signal(sent)
    return end(END_LIMIT_MS)
  }
  return {
    end,
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    terminate: () => endBy('SIGTERM'),
    kill: () => endBy('SIGKILL'),
    isRunning: (): boolean => {
      const process = identity()
      return process !== undefined && isAlive(process)
    },
  }
}

export async function openOwnServer(name: ServerName, options: OwnServerOptions = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), `marketlog-own-${name}-`))
  const storeDir = join(dataDir, name === 'schemaRegistry' ? 'schema-registry' : name)
  for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part))
  const unmount = options.diskMegabytes === undefined ? () => undefined : mountDisk(storeDir, options.diskMegabytes)
  const shared = { dataDir, environment: process.env, say: () => undefined, signal: new AbortController().signal }
  let started: NativeServers | undefined
  let identity: ProcessIdentity | undefined
  const start = async (): Promise<void> => {
    if (started) await started.restart(name)
    else started = await startNative(shared, { [name]: options.tls ? withTls(options.tls) : NATIVE_SERVERS[name] })
    identity = identify(started.pids[name] ?? 0)
    if (identity === undefined) throw new Error(`${name} ended as soon as it had answered`)
  }
  const { terminate, ...control } = controlProcess(name, () => identity)
  const close = async (): Promise<void> => {
    control.thaw()
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
  return {
    ...control,
    close,
    addresses: (started as NativeServers | undefined)?.addresses ?? {},
    // Postgres may have to keep its data where its own user can enter.
    storeDir: (name === 'postgres' && postgresHomeElsewhere(dataDir)) || storeDir,
    async start(): Promise<void> {
      await started?.stop()
      await start()
    },
    log: () => readFileSync(join(dataDir, 'logs', `${name}.log`), 'utf8'),
  }
}

/** Postgres takes a key only from a file of its own account that nobody else can read. */
const withTls =
  (tls: NonNullable<OwnServerOptions['tls']>): PrepareServer =>
  async context => {
    const prepared = await NATIVE_SERVERS.postgres(context)
    const { directory = context.dataDir, uid, gid, args } = prepared.launch
    const settings = Object.entries({ ssl_ca_file: tls.ca, ssl_cert_file: tls.certificate, ssl_key_file: tls.key })
    const own = settings.flatMap(([name, file]) => {
      const copy = join(directory, `${name}.pem`)
      replaceFile(copy, readFileSync(file, 'utf8'), 0o600)
      if (uid !== undefined && gid !== undefined) chownSync(copy, uid, gid)
      return ['-c', `${name}=${copy}`]
    })
    return { ...prepared, launch: { ...prepared.launch, args: [...args, '-c', 'ssl=on', ...own] } }
  }

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
