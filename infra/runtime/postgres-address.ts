/**
 * Addresses of Postgres as libpq writes them: several hosts, `sslmode`, `target_session_attrs`, certificate files in one URL.
 *
 * node-postgres knows one host, and takes `require` and `verify-ca` for `verify-full`, so what concerns hosts and TLS is
 * read here and never reaches it. Pure: the files are named, not read.
 * https://www.postgresql.org/docs/current/libpq-connect.html
 */
import type { TlsFiles } from './tls-files.ts'

const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
/** What a server must be; those of libpq that a writer can use. */
const SESSION_ATTRIBUTES = ['any', 'read-write', 'primary'] as const

type SslMode = (typeof SSL_MODES)[number]

/** An address, taken apart. */
export interface PostgresAddress {
  /** One URL of each server, without what is read here. */
  urls: readonly string[]
  sslMode: SslMode
  tls: TlsFiles
  attributes: (typeof SESSION_ATTRIBUTES)[number]
  /** A pooler that hands each transaction to another session is between. */
  isPooled: boolean
}

/** How {@link PostgresAddress.isPooled} is written; libpq has no word for it. */
const POOLED = { name: 'pool_mode', value: 'transaction' }
const FILES = { ca: 'sslrootcert', certificate: 'sslcert', key: 'sslkey' } as const
const OURS = ['sslmode', 'target_session_attrs', POOLED.name, ...Object.values(FILES)]
/** Parameters that would be passed over in silence, or read otherwise than libpq does. */
const REFUSED = ['ssl', 'sslnegotiation', 'sslcrl', 'sslcrldir', 'sslpassword', 'uselibpqcompat']

interface Parts {
  scheme: string
  user: string
  hosts: string
  database: string
  parameters: URLSearchParams
}

/** Users and passwords may hold unescaped `@`, as they may in other URLs. */
const FORM = /^(postgres(?:ql)?:\/\/)(?:([^/?#]*)@)?([^/?#@]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/

function partsOf(address: string): Parts | undefined {
  const [, scheme, user = '', hosts = '', database = '', parameters = ''] = FORM.exec(address) ?? []
  return scheme === undefined
    ? undefined
    : { scheme, user, hosts, database, parameters: new URLSearchParams(parameters) }
}

function textOf({ scheme, user, hosts, database, parameters }: Parts): string {
  const asked = parameters.size === 0 ? '' : `?${parameters}`
  return `${scheme}${user === '' ? '' : `${user}@`}${hosts}/${database}${asked}`
}

/** Takes an address apart; throws a line without the password when it is none. */
export function parsePostgresAddress(address: string): PostgresAddress {
  const parts = partsOf(address)
  if (parts === undefined) throw new Error('must be postgres://user:password@host:port,host:port/database?sslmode=…')
  const { hosts, parameters } = parts
  const refused = REFUSED.find(name => parameters.has(name))
  if (refused !== undefined) throw new Error(`must not have ${refused}; sslmode says how TLS is used, as libpq has it`)
  const tls = {
    ca: parameters.get(FILES.ca) ?? undefined,
    certificate: parameters.get(FILES.certificate) ?? undefined,
    key: parameters.get(FILES.key) ?? undefined,
  }
  const hasFiles = Object.values(tls).some(file => file !== undefined)
  const sslMode = oneOf(SSL_MODES, parameters, 'sslmode') ?? (hasFiles ? 'verify-full' : 'disable')
  if (sslMode === 'disable' && hasFiles) throw new Error('has sslmode=disable, but certificate files are named')
  if ((tls.certificate === undefined) !== (tls.key === undefined)) throw new Error('needs both of sslcert and sslkey')
  const attributes = oneOf(SESSION_ATTRIBUTES, parameters, 'target_session_attrs') ?? 'any'
  const rest = new URLSearchParams([...parameters].filter(([name]) => !OURS.includes(name)))
  const isPooled = parameters.get(POOLED.name) === POOLED.value
  const urls = hosts.split(',').map(host => textOf({ ...parts, hosts: host, parameters: rest }))
  if (!urls.every(url => URL.canParse(url))) throw new Error('names a host or a port that is none')
  // What the system trusts is the default, which libpq asks for by this word.
  return { urls, sslMode, tls: { ...tls, ca: tls.ca === 'system' ? undefined : tls.ca }, attributes, isPooled }
}

function oneOf<T extends string>(values: readonly T[], parameters: URLSearchParams, name: string): T | undefined {
  const given = parameters.get(name)
  const found = values.find(value => value === given)
  if (given !== null && found === undefined) throw new Error(`must have ${name} = ${values.join(', ')}, not ${given}`)
  return found
}

/** The same servers and another database. */
export function withDatabase(address: string, database: string): string {
  const parts = partsOf(address)
  if (parts === undefined) throw new Error('no address of Postgres')
  return textOf({ ...parts, database: encodeURIComponent(database) })
}

/** The database that an address names. */
export const databaseOf = (address: string): string => decodeURIComponent(partsOf(address)?.database ?? '')

/** The address with certificate files that the environment names, and what it says of a pooler. */
export function completePostgresAddress(
  address: string,
  { tls, isPooled }: { tls: TlsFiles | undefined; isPooled: boolean },
): string {
  const parts = partsOf(address)
  if (parts === undefined) return address
  const { parameters } = parts
  for (const [part, name] of Object.entries(FILES) as [keyof TlsFiles, string][]) {
    const file = tls?.[part]
    if (file !== undefined && !parameters.has(name)) parameters.set(name, file)
  }
  if (isPooled) parameters.set(POOLED.name, POOLED.value)
  return tls === undefined && !isPooled ? address : textOf(parts)
}
