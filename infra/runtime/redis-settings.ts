/**
 * Settings of the way to Redis: one server, a master that Sentinels name, or a Cluster; TLS and credentials.
 *
 * Reads only the environment that it is given, and whether the files that it names are there. Certificates and secrets are
 * read when a connection is opened, so that new files are in force without a restart.
 */
import { type Environment, readSecret, type Secret } from './secret.ts'
import { readTlsFileNames, type TlsFiles } from './tls-files.ts'

export interface RedisNode {
  host: string
  port: number
}

export interface RedisAddress {
  kind: 'single' | 'sentinel' | 'cluster'
  isTls: boolean
  /** The server, the Sentinels, or some servers of the Cluster. */
  nodes: RedisNode[]
  /** Name of the master; with Sentinels alone. */
  master: string
  user: string | undefined
  password: string | undefined
  database: number
}

/** How a client proves itself to Redis, beside what the address holds. */
export interface RedisAccess {
  tls: TlsFiles | undefined
  user: string | undefined
  password: Secret | undefined
  sentinel: {
    /** Undefined: as the servers. */
    isTls: boolean | undefined
    user: string | undefined
    password: Secret | undefined
  }
}

export interface RedisSettings {
  servers: { redis: string }
  redis: RedisAccess
}

const PORT = 6379
const SENTINEL_PORT = 26379
const HIGHEST_PORT = 65_535
const FORM = /^redis(s?)(-sentinel|-cluster)?:\/\/(?:([^@/?]*)@)?([^@/?]+)(?:\/(\d*))?(?:\?(.*))?$/
const NODE = /^(?:\[([^\]]+)\]|([^[\]:]+))(?::(\d+))?$/

/** Reads an address; undefined when it has no form that Redis is addressed by. */
export function parseRedisUrl(text: string): RedisAddress | undefined {
  const [, secure, form, login = '', hosts = '', database = '', query = ''] = FORM.exec(text) ?? []
  const kind = form === '-sentinel' ? 'sentinel' : form === '-cluster' ? 'cluster' : 'single'
  const nodes = hosts.split(',').map(host => parseNode(host, kind === 'sentinel' ? SENTINEL_PORT : PORT))
  const parameters = new URLSearchParams(query)
  const master = parameters.get('master') ?? ''
  parameters.delete('master')
  if (nodes.includes(undefined) || parameters.size > 0 || (kind === 'sentinel') !== (master !== '')) return undefined
  if (kind === 'single' && nodes.length > 1) return undefined
  if (kind === 'cluster' && Number(database) > 0) return undefined
  const proof = parseLogin(login)
  if (proof === undefined) return undefined
  return { kind, isTls: secure === 's', nodes: nodes as RedisNode[], master, ...proof, database: Number(database) }
}

export function addressOf({ servers }: RedisSettings): RedisAddress {
  const address = parseRedisUrl(servers.redis)
  if (address === undefined) throw new Error(WRONG_ADDRESS)
  return address
}

const WRONG_ADDRESS =
  'REDIS_URL must be redis://host:port, redis-sentinel://host:port,host:port?master=NAME or ' +
  'redis-cluster://host:port,host:port; rediss… with TLS (infra/README.md, "Redis")'

function parseNode(text: string, port: number): RedisNode | undefined {
  const [, literal, name, portText] = NODE.exec(text.trim()) ?? []
  const [host, at] = [literal ?? name, Number(portText ?? port)]
  return host === undefined || at > HIGHEST_PORT ? undefined : { host, port: at }
}

/** Decodes a part of a login; undefined when it is not encoded as one of an address is. */
function parseLogin(text: string): { user: string | undefined; password: string | undefined } | undefined {
  const [user = '', ...rest] = text.split(':')
  try {
    const [name, secret] = [decodeURIComponent(user), decodeURIComponent(rest.join(':'))]
    return { user: name || undefined, password: secret || undefined }
  } catch {
    return undefined
  }
}

export function readRedisAccess(env: Environment, url: string, faults: string[]): RedisAccess {
  const address = url === '' ? undefined : parseRedisUrl(url)
  if (url !== '' && address === undefined) faults.push(WRONG_ADDRESS)
  const tls = readTlsFileNames(env, 'REDIS_TLS', faults)
  const password = readSecret(env, 'REDIS_PASSWORD', faults)
  const user = env.REDIS_USER || undefined
  if (address && !address.isTls && tls) faults.push('REDIS_TLS_* names files, but REDIS_URL is without TLS (rediss:)')
  if (address?.password !== undefined && password) faults.push('REDIS_PASSWORD and REDIS_URL both hold a password')
  if (user !== undefined && password === undefined) faults.push('REDIS_PASSWORD is not set, REDIS_USER is')
  const isTls = env.REDIS_SENTINEL_TLS || ''
  if (!['', 'true', 'false'].includes(isTls)) faults.push('REDIS_SENTINEL_TLS must be true or false')
  const sentinel = {
    isTls: isTls === '' ? undefined : isTls === 'true',
    user: env.REDIS_SENTINEL_USER || undefined,
    password: readSecret(env, 'REDIS_SENTINEL_PASSWORD', faults),
  }
  const isSentinelNamed = Object.values(sentinel).some(each => each !== undefined)
  if (address && address.kind !== 'sentinel' && isSentinelNamed)
    faults.push('REDIS_SENTINEL_* is set, but REDIS_URL names no Sentinels (redis-sentinel:)')
  return { tls, user, password, sentinel }
}
