/**
 * Which server of an address a connection goes to, and which connections are left for another.
 *
 * node-postgres knows one host. Here each new connection goes to the server chosen last; one that does not answer, or is not
 * what `target_session_attrs` asks for, makes the next one the choice. States of a server: chosen, passed over, left: its connections are
 * not used again, since it has refused a write. Certificates are read at each connection. Invariant: each server is tried once before an error is
 * thrown, so no wait is longer than the servers' limits together; what has been sent to a server is never sent again from here.
 */
import { isIP } from 'node:net'
import { Client, type ClientConfig, DatabaseError, Pool, type PoolClient, type PoolConfig } from 'pg'
import { type PostgresAddress, parsePostgresAddress } from '../runtime/postgres-address.ts'
import { Refused, refusedCertificate } from '../runtime/refused.ts'
import { readTlsFiles } from '../runtime/tls-files.ts'

/** SQLSTATE codes: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const READ_ONLY = '25006'
const CANNOT_CONNECT_NOW = '57P03'
/** The server ends this session: shut down, crashed, or on its way. */
const ENDS_SESSION = new Set(['57P01', '57P02', CANNOT_CONNECT_NOW])
/** A user or a password that the server does not take. */
const CREDENTIALS = new Set(['28000', '28P01'])

/** One way to a server: `prefer` has two for each. */
interface Way {
  url: string
  hasTls: boolean
  /** Grows when its connections are left. */
  left: number
}

/** What a connection is known by. */
interface Session {
  way: Way
  /** Of {@link Way.left} when it was opened. */
  left: number
  /** The server has reported these; a pooler may not. */
  reported: Map<string, string>
  isOver: boolean
  /** A certificate file could not be read. */
  unreadable: Error | undefined
}

interface Failure {
  way: Way
  error: Error
}

/** The servers of an address: which one is chosen, and what became of their connections. */
interface Servers {
  address: PostgresAddress
  sessions: WeakMap<Client, Session>
  /** The way of the next connection. */
  chosen(): Way
  /** Notes why a connection has failed; resolves to what is thrown. */
  fail(way: Way, error: Error): Error
  /** Connects somewhere: each way is tried once. */
  somewhere<T>(attempt: () => Promise<T>): Promise<T>
  isUsable(client: Client): boolean
  /** The server of a connection refuses writes: its connections are left. */
  leave(client: Client): void
}

function openServers(url: string): Servers {
  const address = parsePostgresAddress(url)
  const ways = waysOf(address)
  const sessions: Servers['sessions'] = new WeakMap()
  const failures: Failure[] = []
  let turns = 0
  const chosen = (): Way => ways[turns % ways.length] as Way
  const passOver = (way: Way): void => {
    if (way === chosen()) turns += 1
  }
  return {
    ...{ address, sessions, chosen },
    fail(way, error) {
      const known = describe(way, error)
      // Another server would answer alike, unless this one is only about to start.
      if (error instanceof DatabaseError && error.code !== CANNOT_CONNECT_NOW) return known
      passOver(way)
      failures.push({ way, error: known })
      failures.splice(0, failures.length - ways.length)
      return known
    },
    async somewhere(attempt) {
      for (let left = ways.length; ; left--) {
        const before = turns
        try {
          return await attempt()
        } catch (error) {
          // Where no server was passed over, all connections are in use.
          if (left > 1 && turns !== before) continue
          throw ways.length === 1 || turns === before ? error : summary(error as Error, failures)
        }
      }
    },
    isUsable(client) {
      const session = sessions.get(client)
      return session !== undefined && session.left === session.way.left && misfitOf(session, address) === undefined
    },
    leave(client) {
      const way = sessions.get(client)?.way
      if (way === undefined) return
      way.left += 1
      passOver(way)
    },
  }
}

/** Makes clients of the way that is chosen when they are made, with the certificates of then: a pool asks for a constructor. */
function clientClass({ address, sessions, chosen, fail }: Servers): typeof Client {
  return class extends Client {
    constructor(given?: string | ClientConfig) {
      const way = chosen()
      const { ssl, unreadable } = way.hasTls ? tlsOf(address) : { ssl: false }
      super({ ...(given as ClientConfig), connectionString: way.url, ssl })
      const session: Session = { way, left: way.left, reported: new Map(), isOver: false, unreadable }
      sessions.set(this, session)
      const end = (): void => {
        session.isOver = true
      }
      this.on('error', end).on('end', end)
      this.connection.on('parameterStatus', ({ parameterName, parameterValue }) =>
        session.reported.set(parameterName, parameterValue),
      )
    }

    override connect(): Promise<Client>
    override connect(callback: (error: Error) => void): void
    override connect(callback?: (error: Error) => void): Promise<Client> | undefined {
      const opened = this.#open()
      if (callback === undefined) return opened
      opened.then(() => callback(null as never), callback)
      return undefined
    }

    async #open(): Promise<Client> {
      const session = sessions.get(this) as Session
      try {
        if (session.unreadable) throw session.unreadable
        await super.connect()
        await expectFit(this, session, address)
        return this
      } catch (error) {
        this.end().catch(() => undefined)
        throw fail(session.way, error as Error)
      }
    }
  }
}

const waysOf = ({ urls, sslMode }: PostgresAddress): Way[] =>
  urls.flatMap(url => {
    const uses = sslMode === 'prefer' ? [true, false] : [sslMode !== 'disable']
    return uses.map(hasTls => ({ url, hasTls, left: 0 }))
  })

/** As libpq has it: `require` judges a certificate only where an authority is named, and no name before `verify-full`. */
function tlsOf({ sslMode, tls }: PostgresAddress): { ssl: ClientConfig['ssl']; unreadable?: Error } {
  const isJudged = sslMode.startsWith('verify') || (sslMode === 'require' && tls.ca !== undefined)
  const judged = {
    rejectUnauthorized: isJudged,
    ...(sslMode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  }
  try {
    return { ssl: { ...readTlsFiles(tls), ...judged } }
  } catch (error) {
    // A constructor that throws would end the process where the pool makes a client by itself.
    return { ssl: judged, unreadable: error as Error }
  }
}

/** Why a session is not what was asked for, as far as the server has reported it. */
function misfitOf({ reported }: Session, { attributes }: PostgresAddress): string | undefined {
  if (attributes === 'any') return undefined
  if (reported.get('in_hot_standby') === 'on') return 'is a standby'
  const isReadOnly = attributes === 'read-write' && reported.get('default_transaction_read_only') === 'on'
  return isReadOnly ? 'is read-only' : undefined
}

const ASK_STATE = `SELECT CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END AS in_hot_standby,
  current_setting('default_transaction_read_only') AS default_transaction_read_only`

/** Throws unless the session is what the address asks for. Servers report it by themselves; a pooler has to be asked. */
async function expectFit(client: Client, session: Session, address: PostgresAddress): Promise<void> {
  if (address.attributes === 'any') return
  if (!session.reported.has('in_hot_standby')) {
    const [state] = (await client.query<Record<string, string>>(ASK_STATE)).rows
    for (const [name, value] of Object.entries(state ?? {})) session.reported.set(name, value)
  }
  const misfit = misfitOf(session, address)
  if (misfit !== undefined) throw new Error(`the server ${misfit}`)
}

/** Without user and password. */
const nameOf = ({ url }: Way): string => {
  const { hostname, port } = new URL(url)
  const host = decodeURIComponent(hostname)
  return `${isIP(host) || host ? host : 'the local socket'}:${port || '5432'}`
}

function describe(way: Way, error: Error): Error {
  const at = `Postgres at ${nameOf(way)}`
  if (error instanceof DatabaseError && CREDENTIALS.has(error.code ?? ''))
    return new Refused(`${at} refuses the credentials (${error.code}); check user and password of DATABASE_URL`, {
      cause: error,
    })
  return refusedCertificate(error, at, 'DATABASE_TLS') ?? error
}

/** What all servers have answered; a refusal first, since it alone does not go away. */
function summary(error: Error, failures: readonly Failure[]): Error {
  const refusal = failures.find(failure => failure.error instanceof Refused)?.error
  if (error instanceof Refused || error instanceof DatabaseError) return error
  if (refusal !== undefined) return refusal
  const each = failures.map(failure => `${nameOf(failure.way)}: ${failure.error.message}`).join('; ')
  const { code } = error as { code?: string }
  return Object.assign(new Error(`no server of DATABASE_URL can be used: ${each}`, { cause: error }), { code })
}

/** A connection that fits; throws when no server of the address gives one. The caller ends it. */
export function connectClient(url: string, options: ClientConfig): Promise<Client> {
  const servers = openServers(url)
  const ServerClient = clientClass(servers)
  return servers.somewhere(() => new ServerClient(options).connect())
}

const ASK_LIMIT_MS = 5_000

/** Connects once; throws what the servers answer, a `Refused` where trying again does not help. */
export async function askPostgres(url: string): Promise<void> {
  const client = await connectClient(url, { connectionTimeoutMillis: ASK_LIMIT_MS })
  await client.end()
}

/** A pool over the servers of an address, and what its users report of errors. */
export interface ServerPool {
  pool: Pool
  isPooled: boolean
  /** Gives a connection back, after an error maybe; one that cannot be used again is closed. */
  giveBack(client: PoolClient, error?: unknown): void
  /** Whether the connection was lost, rather than that its server refused something. */
  isLost(client: PoolClient): boolean
}

/** Opens a pool; each connection that is taken from it fits. */
export function openServerPool(url: string, optionsOf: (address: PostgresAddress) => PoolConfig): ServerPool {
  const servers = openServers(url)
  const options = optionsOf(servers.address)
  const pool = new Pool({ ...options, Client: clientClass(servers) as NonNullable<PoolConfig['Client']> })
  const take = pool.connect.bind(pool) as () => Promise<PoolClient>
  const takeUsable = async (): Promise<PoolClient> => {
    for (;;) {
      const client = await take()
      if (servers.isUsable(client)) return client
      client.release(true)
    }
  }
  /** In both forms, since the pool's own `query` and the library of jobs call it. */
  const connect = (callback?: (error?: Error, client?: PoolClient, release?: PoolClient['release']) => void) => {
    const taken = servers.somewhere(takeUsable)
    if (callback === undefined) return taken
    taken.then(
      client => callback(undefined, client, client.release),
      error => callback(error, undefined, () => undefined),
    )
    return undefined
  }
  return {
    pool: Object.assign(pool, { connect }) as Pool,
    isPooled: servers.address.isPooled,
    giveBack(client, error) {
      if (isReadOnly(error)) servers.leave(client)
      client.release(error !== undefined && !isAnswer(error))
    },
    isLost: client => servers.sessions.get(client)?.isOver ?? true,
  }
}

/** A server that was made a standby, or read-only, refuses a write so. It has done nothing. */
export const isReadOnly = (error: unknown): boolean => error instanceof DatabaseError && error.code === READ_ONLY

/** The server has answered, and the session goes on. */
const isAnswer = (error: unknown): boolean =>
  error instanceof DatabaseError && !ENDS_SESSION.has(error.code ?? '') && error.code !== READ_ONLY
