/**
 * The platform's settings, read once from the environment and passed on as arguments.
 *
 * Errors name the variable to set. Defaults are documented in infra/README.md, "Configuration".
 */
import { completeClickhouseAddress } from './clickhouse-address.ts'
import { CONNECTION_LIMITS } from './connection-limits.ts'
import { type KafkaSettings, type RegistrySettings, readKafkaSettings, readRegistrySettings } from './kafka-settings.ts'
import { completePostgresAddress, parsePostgresAddress } from './postgres-address.ts'
import { type RedisAccess, readRedisAccess } from './redis-settings.ts'
import { isSecretKey } from './sealed-box.ts'
import { type Environment, readSecret } from './secret.ts'
import { readTlsFileNames } from './tls-files.ts'
import { openTrustedProxies } from './trusted-proxies.ts'

/** An OpenID provider, and what it knows this platform by. */
interface SignInConfig {
  /** URL of the issuer or of its discovery document. */
  discoveryUrl: string
  clientId: string
  clientSecret: string | undefined
}

/** Where the servers answer: kafka as host:port, the others as URLs including credentials. */
export interface ServerAddresses {
  kafka: string[]
  schemaRegistry: string
  redis: string
  clickhouse: string
  clickhouseReadOnly: string
  postgres: string
  /** Where `postgres` is a pooler: its server, for what needs a session of its own. */
  postgresDirect?: string
}

/** The proxies between clients and a process, and the limits of clients. */
interface ClientsConfig {
  /** Networks of proxies whose word on a client's address counts. */
  trustedProxies: readonly string[]
  /** Connections of the process, and of one address. */
  connections: number
  connectionsPerAddress: number
}

export interface PlatformConfig {
  /** Prefix of topics, groups and keys; empty in production, `t7f3a.` in a test. */
  namespace: string
  servers: ServerAddresses
  kafka: KafkaSettings
  redis: RedisAccess
  registry: RegistrySettings
  host: string
  /** Port of the process's HTTP host; 0 lets the system choose. */
  port: number
  /** Where readiness and metrics are answered, and where that listens; 0 lets the system choose. */
  operatorHost: string
  operatorPort: number
  /** Public root of the API, without a trailing slash. */
  baseUrl: string
  clients: ClientsConfig
  /** Name or path of the market file that ingest runs. */
  market: string
  /** Path of a providers file that replaces the built-in registry. */
  providersFile: string | undefined
  /** Path of a tiers file that replaces the built-in limits. */
  tiersFile: string | undefined
  /** Folder for what must outlive a process but is no data: group member ids. */
  stateDir: string
  logLevel: string
  /** Exchange rates: an HTTP URL of the currency-api shape; undefined reads the package. */
  fxUrl: string | undefined
  /** Key that signs paging cursors; undefined: nothing that pages is offered. */
  cursorKey: string | undefined
  /** Key that seals stored secrets, 32 bytes in base64; undefined: nothing that needs one is offered. */
  secretKey: string | undefined
  /** OpenID provider that people sign in with; undefined: sign-in is not offered. */
  signIn: SignInConfig | undefined
  /** OpenID 2.0 endpoint of the game's platform; undefined: no platform account can be linked. */
  platformSignInUrl: string | undefined
  /** Root of the game's platform, for inventories, without a trailing slash; undefined: none can be read. */
  inventoryUrl: string | undefined
  /** Mail server, `smtp://user:password@host:587`; undefined: mails are recorded as failed. */
  smtpUrl: string | undefined
  mailFrom: string
  /** `address:port` of destinations that webhooks may reach although they are not public; for development. */
  webhookAllow: readonly string[]
  /** Ports of public hosts that webhooks may reach. */
  webhookPorts: readonly number[]
  /** Name servers asked for the hosts of webhooks; empty: those of the system. */
  webhookDns: readonly string[]
  /** Limit of one request to a webhook. */
  webhookLimitMs: number
  /** All variables, for the addresses and secrets that a market file names. */
  variables: Readonly<Environment>
}

/** DECISIONS.md, "Webhooks". */
const WEBHOOK_LIMIT_MS = 10_000

/** Reads the settings; throws an Error that names every variable at fault. */
export function readConfig(env: Environment): PlatformConfig {
  const faults: string[] = []
  const secret = (name: string): string | undefined => {
    const read = readSecret(env, name, faults)
    // A file that cannot be read is a fault that was noted.
    return faults.some(fault => fault.startsWith(`${name}_FILE`)) ? undefined : read?.()
  }
  const needed = (name: string): string => {
    const value = secret(name)
    if (value === undefined) faults.push(`${name} is not set`)
    return value ?? ''
  }
  const port = readPort(env, 'PORT', 8080, faults)
  const namespace = env.MARKETLOG_NAMESPACE ?? ''
  if (!/^([a-z][a-z0-9-]{0,30}\.)?$/.test(namespace)) {
    faults.push('MARKETLOG_NAMESPACE must be empty or a lower-case word with a final dot')
  }
  const secretKey = secret('MARKETLOG_SECRET_KEY')
  if (secretKey !== undefined && !isSecretKey(secretKey)) {
    faults.push('MARKETLOG_SECRET_KEY must be 32 bytes in base64 (openssl rand -base64 32)')
  }
  const redis = needed('REDIS_URL')
  const config: PlatformConfig = {
    namespace,
    servers: {
      kafka: listed(needed('KAFKA_BROKERS')),
      schemaRegistry: needed('SCHEMA_REGISTRY_URL'),
      redis,
      ...readClickhouse(env, { url: needed('CLICKHOUSE_URL'), readOnly: secret('CLICKHOUSE_READONLY_URL') }, faults),
      ...readPostgres(env, { url: needed('DATABASE_URL'), direct: secret('DATABASE_DIRECT_URL') }, faults),
    },
    kafka: readKafkaSettings(env, faults),
    redis: readRedisAccess(env, redis, faults),
    registry: readRegistrySettings(env, faults),
    host: env.HOST ?? '127.0.0.1',
    port,
    operatorHost: env.OPERATOR_HOST ?? '127.0.0.1',
    operatorPort: readPort(env, 'OPERATOR_PORT', 8081, faults),
    baseUrl: readBaseUrl(env, port, faults),
    clients: readClients(env, faults),
    market: env.MARKET || 'empty',
    providersFile: env.MARKETLOG_PROVIDERS,
    tiersFile: env.MARKETLOG_TIERS,
    stateDir: env.MARKETLOG_STATE_DIR ?? '.run/state',
    logLevel: env.LOG_LEVEL ?? 'info',
    fxUrl: env.FX_URL,
    cursorKey: secret('CURSOR_KEY'),
    secretKey,
    signIn: readSignIn(env, secret('MARKETLOG_OIDC_CLIENT_SECRET'), faults),
    platformSignInUrl: readSafeUrl(env, 'MARKETLOG_PLATFORM_OPENID_URL', faults),
    inventoryUrl: readSafeUrl(env, 'MARKETLOG_INVENTORY_URL', faults)?.replace(/\/+$/, ''),
    smtpUrl: secret('MARKETLOG_SMTP_URL'),
    mailFrom: env.MARKETLOG_MAIL_FROM || 'marketlog <marketlog@localhost>',
    webhookAllow: listed(env.MARKETLOG_WEBHOOK_ALLOW),
    webhookPorts: readPorts(env, 'MARKETLOG_WEBHOOK_PORTS', [80, 443], faults),
    webhookDns: listed(env.MARKETLOG_WEBHOOK_DNS),
    webhookLimitMs: WEBHOOK_LIMIT_MS,
    variables: env,
  }
  if (faults.length > 0) {
    throw new Error(
      `${faults.join('; ')}. Start the servers with \`make up\`, or set the addresses (infra/README.md, "Configuration").`,
    )
  }
  return config
}

function readPort(env: Environment, name: string, otherwise: number, faults: string[]): number {
  const port = Number(env[name] ?? otherwise)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) faults.push(`${name} must be 0 to 65535, not ${env[name]}`)
  return port
}

function readPorts(env: Environment, name: string, otherwise: readonly number[], faults: string[]): readonly number[] {
  const given = listed(env[name]).map(Number)
  const isPort = (port: number) => Number.isInteger(port) && port > 0 && port <= 65_535
  if (!given.every(isPort)) faults.push(`${name} must list ports, such as 80,443,8443`)
  return given.length === 0 ? otherwise : given
}

/** An address that others reach must be named, since links and sign-in lead there, and be safe, since keys are sent to it. */
function readBaseUrl(env: Environment, port: number, faults: string[]): string {
  const host = env.HOST || '127.0.0.1'
  const isLocal = LOOPBACK.has(host) || host === '::1'
  if (!env.BASE_URL && !isLocal) faults.push(`BASE_URL is not set, and HOST (${host}) is not loopback alone`)
  return (readSafeUrl(env, 'BASE_URL', faults) ?? `http://127.0.0.1:${port}`).replace(/\/+$/, '')
}

function readClients(env: Environment, faults: string[]): ClientsConfig {
  const count = (name: string, otherwise: number): number => {
    const value = Number(env[name] ?? otherwise)
    if (!Number.isInteger(value) || value < 1) faults.push(`${name} must be a whole number of at least 1`)
    return value
  }
  const trustedProxies = listed(env.TRUSTED_PROXIES)
  try {
    openTrustedProxies(trustedProxies)
  } catch (error) {
    faults.push(`TRUSTED_PROXIES: ${(error as Error).message}`)
  }
  return {
    trustedProxies,
    connections: count('MAX_CONNECTIONS', CONNECTION_LIMITS.connections),
    connectionsPerAddress: count('MAX_CONNECTIONS_PER_ADDRESS', CONNECTION_LIMITS.perAddress),
  }
}

/** Faults name the variable and quote nothing of an address. */
function readPostgres(
  env: Environment,
  { url, direct }: { url: string; direct: string | undefined },
  faults: string[],
): Pick<ServerAddresses, 'postgres' | 'postgresDirect'> {
  const tls = readTlsFileNames(env, 'DATABASE_TLS', faults)
  const complete = (name: string, given: string, isPooled: boolean): string => {
    const address = completePostgresAddress(given, { tls, isPooled })
    try {
      if (given !== '') parsePostgresAddress(address)
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`)
    }
    return address
  }
  const postgres = complete('DATABASE_URL', url, direct !== undefined)
  if (direct === undefined) return { postgres }
  return { postgres, postgresDirect: complete('DATABASE_DIRECT_URL', direct, false) }
}

function readClickhouse(
  env: Environment,
  { url, readOnly = url }: { url: string; readOnly: string | undefined },
  faults: string[],
): Pick<ServerAddresses, 'clickhouse' | 'clickhouseReadOnly'> {
  const tls = readTlsFileNames(env, 'CLICKHOUSE_TLS', faults)
  const cluster = env.CLICKHOUSE_CLUSTER || undefined
  const complete = (name: string, given: string): string => {
    try {
      return given === '' ? '' : completeClickhouseAddress(given, { tls, cluster })
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`)
      return given
    }
  }
  return {
    clickhouse: complete('CLICKHOUSE_URL', url),
    clickhouseReadOnly: complete('CLICKHOUSE_READONLY_URL', readOnly),
  }
}

function readSignIn(env: Environment, clientSecret: string | undefined, faults: string[]): SignInConfig | undefined {
  const discoveryUrl = readSafeUrl(env, 'MARKETLOG_OIDC_URL', faults)
  if (discoveryUrl === undefined) return undefined
  const clientId = env.MARKETLOG_OIDC_CLIENT_ID ?? ''
  if (clientId === '') faults.push('MARKETLOG_OIDC_CLIENT_ID is not set, MARKETLOG_OIDC_URL is')
  return { discoveryUrl, clientId, clientSecret }
}

const LOOPBACK = new Set(['127.0.0.1', '[::1]', 'localhost'])

/** Credentials must not pass an open wire; on this machine there is none. */
function readSafeUrl(env: Environment, name: string, faults: string[]): string | undefined {
  const text = env[name]
  if (!text) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && LOOPBACK.has(url.hostname))
  if (!isSafe) faults.push(`${name} must be an https URL (http on loopback alone)`)
  return text
}

const listed = (text = ''): string[] =>
  text
    .split(',')
    .map(one => one.trim())
    .filter(Boolean)

export function databaseName(namespace: string): string {
  return namespace === '' ? 'marketlog' : `marketlog_${namespace.replace(/\.$/, '').replace(/-/g, '_')}`
}
