/**
 * Two Postgres servers of a test's own: one that takes writes, and its standby, which can be promoted.
 *
 * The standby begins as a copy of the first one's files and follows by streaming. A commit is acknowledged when both have it, so that none is lost
 * with the first. States: paired → (first killed) → promoted. Invariant: what was acknowledged before the kill is there after the promotion.
 */
import { spawnSync } from 'node:child_process'
import { appendFileSync, chownSync, copyFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Database, openDatabase } from '#infra/postgres/pool.ts'
import { openLog } from '#infra/runtime/log.ts'
import { postgresHomeElsewhere } from '#infra/stack/native/postgres.ts'
import { replaceFile } from '#infra/stack/processes.ts'
import { eventually } from './eventually.ts'
import { type OwnServer, openOwnServer } from './own-server.ts'

/** A server and its standby; what is killed, frozen and started is the first. */
export interface PostgresPair extends OwnServer {
  readonly standby: OwnServer
  /** The address of the first one alone. */
  readonly first: string
  /** Makes the standby one that takes writes; resolves when it does. */
  promote(): Promise<void>
}

const FOLLOWS_MS = 30_000
const log = openLog({ level: 'error', name: 'test' })

/** Starts both; their address names both, the first one first. */
export async function openPostgresPair(): Promise<PostgresPair> {
  const first = await openOwnServer('postgres')
  let standby: OwnServer | undefined
  const close = async (): Promise<void> => {
    await standby?.close()
    await first.close()
  }
  try {
    const url = first.addresses.postgres as string
    await first.kill()
    standby = await openOwnServer('postgres', { prepare: dataDir => copyAsStandby(first.dataDir, dataDir, url) })
    await first.start()
    await on(url, async database => {
      const isFollowed = async () =>
        (await database.rows("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'")).length > 0
      await eventually(isFollowed, 'the standby to follow')
      await database.rows("ALTER SYSTEM SET synchronous_standby_names = '*'")
      await database.rows('SELECT pg_reload_conf()')
    })
    const follower = standby
    return {
      ...first,
      standby: follower,
      first: url,
      addresses: { postgres: bothOf(url, follower.addresses.postgres as string) },
      promote: () => on(follower.addresses.postgres as string, database => database.rows('SELECT pg_promote()')),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function on(url: string, work: (database: Database) => Promise<unknown>): Promise<void> {
  const database = openDatabase(url, { name: 'pair', log, connections: 1, statementLimitMs: FOLLOWS_MS })
  await work(database).finally(() => database.close())
}

function bothOf(one: string, other: string): string {
  const { host } = new URL(one)
  return `${one.replace(host, `${host},${new URL(other).host}`)}?target_session_attrs=read-write`
}

/** Copies the files of a server that does not run, as the beginning of one that follows it. */
function copyAsStandby(from: string, to: string, url: string): void {
  const elsewhere = postgresHomeElsewhere(from)
  const home = elsewhere ?? join(from, 'postgres')
  const copy = elsewhere === undefined ? join(to, 'postgres') : `${elsewhere}-standby`
  if (elsewhere !== undefined) replaceFile(join(to, 'postgres.location'), copy)
  const copied = spawnSync('cp', ['-a', home, copy], { encoding: 'utf8' })
  if (copied.status !== 0) throw new Error(`the files of Postgres could not be copied: ${copied.stderr}`)
  copyFileSync(join(from, 'secrets.json'), join(to, 'secrets.json'))
  const cluster = join(copy, 'cluster')
  const { hostname, port, username, password } = new URL(url)
  const follow = `host=${hostname} port=${port} user=${username} password=${password}`
  appendFileSync(join(cluster, 'postgresql.auto.conf'), `primary_conninfo = '${follow}'\n`)
  rmSync(join(cluster, 'postmaster.pid'), { force: true })
  const signal = join(cluster, 'standby.signal')
  writeFileSync(signal, '')
  const { uid, gid } = statSync(cluster)
  chownSync(signal, uid, gid)
}
