/** PgBouncer in transaction mode: each transaction may be given another session, of which there are fewer than its clients have connections. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { unprivilegedAccount } from '#infra/stack/native/postgres.ts'
import { openPortBook } from '#infra/stack/ports.ts'
import { postgresAnswers } from '#infra/stack/readiness.ts'
import { installPackages } from '#infra/stack/system-packages.ts'
import { collectOutput } from './collected-output.ts'
import { eventually } from './eventually.ts'

const PROGRAMS = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/usr/local/bin/pgbouncer']
/** Sessions of a database. */
const SESSIONS = 3

const living = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

export type OwnPooler = Awaited<ReturnType<typeof openOwnPooler>>

/** Starts a pooler; its URL is the server's by way of it. */
export async function openOwnPooler(server: string) {
  const program = await provideProgram()
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-pooler-'))
  chmodSync(folder, 0o755)
  const port = await openPortBook(folder)('pooler')
  const config = join(folder, 'pooler.ini')
  writeFileSync(config, configOf(new URL(server), port))
  // It refuses to run as root.
  const account = process.getuid?.() === 0 ? unprivilegedAccount() : undefined
  if (account) chownSync(config, account.uid, account.gid)
  const child = spawn(program, [config], { cwd: '/', stdio: ['ignore', 'pipe', 'pipe'], ...account })
  living.add(child)
  const output = collectOutput()
  for (const stream of [child.stdout, child.stderr]) stream?.pipe(output.stream, { end: false })
  const ended = once(child, 'exit').then(() => living.delete(child))
  const url = new URL(server)
  url.port = String(port)
  const close = async (): Promise<void> => {
    child.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  const answers = (): Promise<boolean> => postgresAnswers(port, url.username, 'postgres')
  await eventually(answers, 'the pooler to answer').catch(async error => {
    await close()
    throw new Error(`${error.message}\n${output.text()}`)
  })
  return { url: url.href, log: output.text, close }
}

const configOf = ({ hostname, port, username, password }: URL, own: number): string => `[databases]
* = host=${hostname} port=${port} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${SESSIONS}
server_round_robin = 1
`

function provideProgram(): Promise<string> {
  const find = (): string | undefined => PROGRAMS.find(existsSync)
  const found = find()
  if (found !== undefined) return Promise.resolve(found)
  const context = {
    cacheDir: cacheDirectory(process.env),
    environment: process.env,
    say: (line: string) => console.error(`  [servers] ${line}`),
    signal: new AbortController().signal,
  }
  return installPackages(context, ['pgbouncer'], 'PgBouncer is needed to test what a pooler allows', find)
}
