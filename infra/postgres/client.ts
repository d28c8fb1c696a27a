/**
 * Connections to the server of an address, by TLS as libpq has it. Keeps nothing.
 *
 * node-postgres treats `require` and `verify-ca` as `verify-full`, and reads certificates once. Here they are read at each connection, and what a
 * server refuses is distinguished from a server that does not answer.
 */
import { Client, type ClientConfig, DatabaseError, Pool, type PoolConfig } from 'pg'
import { type PostgresAddress, parsePostgresAddress } from '../runtime/postgres-address.ts'
import { Refused, refusedCertificate } from '../runtime/refused.ts'
import { readTlsFiles } from '../runtime/tls-files.ts'

/** A user or a password that the server refuses: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const CREDENTIALS = new Set(['28000', '28P01'])
const CONNECT_LIMIT_MS = 5_000

/** A connection; rejects with a `Refused` where trying again does not help. The caller ends it. */
export function connectClient(url: string, options: ClientConfig): Promise<Client> {
  const AddressClient = clientClass(parsePostgresAddress(url))
  return new AddressClient(options).connect()
}

/** Works with a connection of its own; rejects as {@link connectClient}. */
export async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await connectClient(url, { connectionTimeoutMillis: CONNECT_LIMIT_MS })
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Connects once; rejects as {@link connectClient}. */
export const askPostgres = (url: string): Promise<void> => withClient(url, async () => undefined)

export const openPool = (url: string, options: PoolConfig): Pool =>
  new Pool({ ...options, Client: clientClass(parsePostgresAddress(url)) as NonNullable<PoolConfig['Client']> })

/** A pool asks for a constructor. */
function clientClass(address: PostgresAddress) {
  return class extends Client {
    readonly #unreadable: Error | undefined

    constructor(options?: string | ClientConfig) {
      const { ssl, unreadable } = tlsOf(address)
      super({ ...(options as ClientConfig), connectionString: address.url, ssl })
      this.#unreadable = unreadable
      // The statement under way reports it, or the next one; without a listener it would end the process.
      this.on('error', () => undefined)
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
      try {
        if (this.#unreadable) throw this.#unreadable
        await super.connect()
        return this
      } catch (error) {
        this.end().catch(() => undefined)
        throw refusalOf(error, address) ?? error
      }
    }
  }
}

/** As libpq has it: `require` checks a certificate only where an authority is named, and no name before `verify-full`. */
function tlsOf({ sslMode, tls }: PostgresAddress): { ssl: ClientConfig['ssl']; unreadable?: Error } {
  if (sslMode === 'disable') return { ssl: false }
  const checks = {
    rejectUnauthorized: sslMode !== 'require' || tls.ca !== undefined,
    ...(sslMode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  }
  try {
    return { ssl: { ...readTlsFiles(tls), ...checks } }
  } catch (error) {
    // A constructor that throws would end the process where the pool makes a client by itself.
    return { ssl: checks, unreadable: error as Error }
  }
}

function refusalOf(error: unknown, { url }: PostgresAddress): Refused | undefined {
  const { hostname, port } = new URL(url)
  // Without user and password.
  const at = `Postgres at ${decodeURIComponent(hostname) || 'the local socket'}:${port || '5432'}`
  if (error instanceof DatabaseError && CREDENTIALS.has(error.code ?? ''))
    return new Refused(`${at} refuses the credentials (${error.code}); check user and password of DATABASE_URL`, {
      cause: error,
    })
  return refusedCertificate(error, at, 'DATABASE_TLS')
}
