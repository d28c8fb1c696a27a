/**
 * Addresses of Postgres as libpq writes them: `sslmode` and certificate files in one URL, of one host.
 *
 * node-postgres takes `require` and `verify-ca` for `verify-full`, so what concerns TLS is read here and never reaches it. Pure: the files
 * are named, not read. https://www.postgresql.org/docs/current/libpq-connect.html
 */
import type { TlsFiles } from './tls-files.ts'

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const

export interface PostgresAddress {
  /** Without what is read here. */
  url: string
  sslMode: (typeof SSL_MODES)[number]
  tls: TlsFiles
  /** A pooler that hands each transaction to another session is between. */
  isPooled: boolean
}

/** How {@link PostgresAddress.isPooled} is written; libpq has no word for it. */
const POOLED = { name: 'pool_mode', value: 'transaction' }
const FILES = { ca: 'sslrootcert', certificate: 'sslcert', key: 'sslkey' } as const
/** Parameters that would be passed over in silence, or read otherwise than libpq does. */
const REFUSED = 'ssl sslnegotiation sslcrl sslcrldir sslpassword uselibpqcompat target_session_attrs'.split(' ')

/** Users and passwords may hold unescaped `@`, as they may in other URLs. */
function urlOf(address: string): URL | undefined {
  const url = /^postgres(ql)?:\/\/[^#]*$/.test(address) && URL.canParse(address) ? new URL(address) : undefined
  return url?.hostname.includes(',') ? undefined : url
}

/** Takes an address apart; throws a line without the password when it is none. */
export function parsePostgresAddress(address: string): PostgresAddress {
  const url = urlOf(address)
  if (url === undefined) throw new Error('must be postgres://user:password@host:port/database?sslmode=…, of one host')
  const { searchParams: parameters } = url
  const refused = REFUSED.find(name => parameters.has(name))
  if (refused !== undefined)
    throw new Error(`must not have ${refused}; of a server and its TLS only sslmode and certificate files are read`)
  const [ca, certificate, key] = Object.values(FILES).map(name => parameters.get(name) ?? undefined)
  const hasFiles = (ca ?? certificate ?? key) !== undefined
  const modeText = parameters.get('sslmode') ?? (hasFiles ? 'verify-full' : 'disable')
  const sslMode = SSL_MODES.find(mode => mode === modeText)
  if (sslMode === undefined) throw new Error(`must have sslmode = ${SSL_MODES.join(', ')}, not ${modeText}`)
  if (sslMode === 'disable' && hasFiles) throw new Error('has sslmode=disable, but certificate files are named')
  if ((certificate === undefined) !== (key === undefined)) throw new Error('needs both of sslcert and sslkey')
  const isPooled = parameters.get(POOLED.name) === POOLED.value
  for (const name of ['sslmode', POOLED.name, ...Object.values(FILES)]) parameters.delete(name)
  // What the system trusts is the default, which libpq asks for by this word.
  return { url: url.href, sslMode, tls: { ca: ca === 'system' ? undefined : ca, certificate, key }, isPooled }
}

/** The same server and another database. */
export function withDatabase(address: string, database: string): string {
  const url = urlOf(address)
  if (url === undefined) throw new Error('no address of Postgres')
  url.pathname = `/${encodeURIComponent(database)}`
  return url.href
}

export const databaseOf = (address: string): string => decodeURIComponent(urlOf(address)?.pathname.slice(1) ?? '')

/** The address with certificate files that the environment names, and what it says of a pooler; throws as {@link parsePostgresAddress}. */
export function completePostgresAddress(
  address: string,
  { tls, isPooled }: { tls: TlsFiles | undefined; isPooled: boolean },
): string {
  parsePostgresAddress(address)
  const url = new URL(address)
  for (const [part, name] of Object.entries(FILES) as [keyof TlsFiles, string][]) {
    const file = tls?.[part]
    if (file !== undefined && !url.searchParams.has(name)) url.searchParams.set(name, file)
  }
  if (isPooled) url.searchParams.set(POOLED.name, POOLED.value)
  parsePostgresAddress(url.href)
  return url.href
}
