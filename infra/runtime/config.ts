/**
 * The platform's settings, read once from the environment and passed on as arguments.
 *
 * Errors name the variable to set. Defaults are documented in infra/README.md, "Configuration".
 */
import { completeClickhouseAddress } from './clickhouse-address.ts'
import { CONNECTION_LIMITS } from './connection-limits.ts'
import { readKafkaSettings, readRegistrySettings } from './kafka-settings.ts'
import { completePostgresAddress } from './postgres-address.ts'
import { readRedisAccess } from './redis-settings.ts'
import { isSecretKey } from './sealed-box.ts'
import { type Environment, readSecret } from './secret.ts'
import { readTlsFileNames } from './tls-files.ts'
import { openTrustedProxies } from './trusted-proxies.ts'

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

export type PlatformConfig = ReturnType<typeof readConfig>

/** Reads the settings; throws an Error that names every variable at fault. */
export function readConfig(env: Environment) {
  const faults: string[] = []
  const config = {
    ...readServers(env, faults),
    ...readProcess(env, faults),
    ...readOffers(env, faults),
    /** All variables, for the addresses and secrets that a market file names. */
    variables: env,
  }
  if (faults.length > 0)
    throw new Error(
      `${faults.join('; ')}. Start the servers with \`make up\`, or set the addresses (infra/README.md, "Configuration").`,
    )
  return config
}

function readServers(env: Environment, faults: string[]) {
  const needed = (name: string): string => {
    const value = secretOf(env, name, faults)
    if (value === undefined) faults.push(`${name} is not set`)
    return value ?? ''
  }
  const namespace = env.MARKETLOG_NAMESPACE ?? ''
  if (!/^([a-z][a-z0-9-]{0,30}\.)?$/.test(namespace))
    faults.push('MARKETLOG_NAMESPACE must be empty or a lower-case word with a final dot')
  const servers: ServerAddresses = {
    kafka: listed(needed('KAFKA_BROKERS')),
    schemaRegistry: needed('SCHEMA_REGISTRY_URL'),
    redis: needed('REDIS_URL'),
    ...readClickhouse(env, needed('CLICKHOUSE_URL'), faults),
    ...readPostgres(env, needed('DATABASE_URL'), faults),
  }
  return {
    /** Prefix of topics, groups and keys; empty in production, `t7f3a.` in a test. */
    namespace,
    servers,
    kafka: readKafkaSettings(env, faults),
    redis: readRedisAccess(env, servers.redis, faults),
    registry: readRegistrySettings(env, faults),
  }
}

function readProcess(env: Environment, faults: string[]) {
  const port = readPort(env, 'PORT', 8080, faults)
  return {
    host: env.HOST ?? '127.0.0.1',
    /** Port of the process's HTTP host; 0 lets the system choose. */
    port,
    /** Where readiness and metrics are answered, and where that listens; 0 lets the system choose. */
    operatorHost: env.OPERATOR_HOST ?? '127.0.0.1',
    operatorPort: readPort(env, 'OPERATOR_PORT', 8081, faults),
    /** Public root of the API, without a trailing slash. */
    baseUrl: readBaseUrl(env, port, faults),
    clients: readClients(env, faults),
    /** Name or path of the market file that ingest runs. */
    market: env.MARKET || 'empty',
    /** Path of a providers file that replaces the built-in registry. */
    providersFile: env.MARKETLOG_PROVIDERS,
    /** Path of a tiers file that replaces the built-in limits. */
    tiersFile: env.MARKETLOG_TIERS,
    /** Folder for what must outlive a process but is no data: group member ids. */
    stateDir: env.MARKETLOG_STATE_DIR ?? '.run/state',
    logLevel: env.LOG_LEVEL ?? 'info',
    /** Exchange rates: an HTTP URL of the currency-api shape; undefined reads the package. */
    fxUrl: env.FX_URL,
  }
}

/** Settings without which something is not offered. */
function readOffers(env: Environment, faults: string[]) {
  const secretKey = secretOf(env, 'MARKETLOG_SECRET_KEY', faults)
  if (secretKey !== undefined && !isSecretKey(secretKey))
    faults.push('MARKETLOG_SECRET_KEY must be 32 bytes in base64 (openssl rand -base64 32)')
  return {
    /** Key that signs paging cursors; undefined: nothing that pages is offered. */
    cursorKey: secretOf(env, 'CURSOR_KEY', faults),
    /** Key that seals stored secrets, 32 bytes in base64; undefined: nothing that needs one is offered. */
    secretKey,
    /** OpenID provider that people sign in with; undefined: sign-in is not offered. */
    signIn: readSignIn(env, faults),
    /** OpenID 2.0 endpoint of the game's platform; undefined: no platform account can be linked. */
    platformSignInUrl: readSafeUrl(env, 'MARKETLOG_PLATFORM_OPENID_URL', faults),
    /** Root of the game's platform, for inventories, without a trailing slash; undefined: none can be read. */
    inventoryUrl: readSafeUrl(env, 'MARKETLOG_INVENTORY_URL', faults)?.replace(/\/+$/, ''),
    /** Mail server, `smtp://user:password@host:587`; undefined: mails are recorded as failed. */
    smtpUrl: secretOf(env, 'MARKETLOG_SMTP_URL', faults),
    mailFrom: env.MARKETLOG_MAIL_FROM || 'marketlog <marketlog@localhost>',
    /** `address:port` of destinations that webhooks may reach although they are not public; for development. */
    webhookAllow: listed(env.MARKETLOG_WEBHOOK_ALLOW),
    /** Ports of public hosts that webhooks may reach. */
    webhookPorts: readPorts(env, 'MARKETLOG_WEBHOOK_PORTS', [80, 443], faults),
    /** Name servers asked for the hosts of webhooks; empty: those of the system. */
    webhookDns: listed(env.MARKETLOG_WEBHOOK_DNS),
    /** Limit of one request to a webhook (DECISIONS.md, "Webhooks"). */
    webhookLimitMs: 10_000,
  }
}

function secretOf(env: Environment, name: string, faults: string[]): string | undefined {
  const read = readSecret(env, name, faults)
  // A file that cannot be read is a fault that was noted.
  return faults.some(fault => fault.startsWith(`${name}_FILE`)) ? undefined : read?.()
}

function readPort(env: Environment, name: string, otherwise: number, faults: string[]): number {
  const port = Number(env[name] ?? otherwise)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) faults.push(`${name} must be 0 to 65535, not ${env[name]}`)
  return port
}

function readPorts(env: Environment, name: string, otherwise: readonly number[], faults: string[]): readonly number[] {
  const ports = listed(env[name]).map(Number)
  const isPort = (port: number) => Number.isInteger(port) && port > 0 && port <= 65_535
  if (!ports.every(isPort)) faults.push(`${name} must list ports, such as 80,443,8443`)
  return ports.length === 0 ? otherwise : ports
}

/** An address that others reach must be named, since links and sign-in lead there, and be safe, since keys are sent to it. */
function readBaseUrl(env: Environment, port: number, faults: string[]): string {
  const host = env.HOST || '127.0.0.1'
  const isLocal = LOOPBACK.has(host) || host === '::1'
  if (!env.BASE_URL && !isLocal) faults.push(`BASE_URL is not set, and HOST (${host}) is not loopback alone`)
  return (readSafeUrl(env, 'BASE_URL', faults) ?? `http://127.0.0.1:${port}`).replace(/\/+$/, '')
}

function readClients(env: Environment, faults: string[]) {
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

/** Completes an address; a fault names the variable and quotes nothing of it. */
function completed(name: string, address: string, complete: (address: string) => string, faults: string[]): string {
  try {
    return address === '' ? '' : complete(address)
  } catch (error) {
    faults.push(`${name} ${(error as Error).message}`)
    return address
  }
}

function readPostgres(env: Environment, url: string, faults: string[]) {
  const direct = secretOf(env, 'DATABASE_DIRECT_URL', faults)
  const tls = readTlsFileNames(env, 'DATABASE_TLS', faults)
  const complete = (isPooled: boolean) => (address: string) => completePostgresAddress(address, { tls, isPooled })
  const postgres = completed('DATABASE_URL', url, complete(direct !== undefined), faults)
  if (direct === undefined) return { postgres }
  return { postgres, postgresDirect: completed('DATABASE_DIRECT_URL', direct, complete(false), faults) }
}

function readClickhouse(env: Environment, url: string, faults: string[]) {
  const readOnly = secretOf(env, 'CLICKHOUSE_READONLY_URL', faults) ?? url
  const tls = readTlsFileNames(env, 'CLICKHOUSE_TLS', faults)
  const cluster = env.CLICKHOUSE_CLUSTER || undefined
  const complete = (address: string) => completeClickhouseAddress(address, { tls, cluster })
  return {
    clickhouse: completed('CLICKHOUSE_URL', url, complete, faults),
    clickhouseReadOnly: completed('CLICKHOUSE_READONLY_URL', readOnly, complete, faults),
  }
}

/** URL of the issuer or of its discovery document, and what it knows this platform by. */
function readSignIn(env: Environment, faults: string[]) {
  const clientSecret = secretOf(env, 'MARKETLOG_OIDC_CLIENT_SECRET', faults)
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
