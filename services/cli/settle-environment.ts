/**
 * Completes a command's environment with what a running platform on this machine already knows: addresses, keys and its market's file.
 * A variable that the user has set always wins.
 */
import { createHash } from 'node:crypto'
import { loadMarket, marketVariables } from '#infra/config/market.ts'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { type Environment, hasSecret } from '#infra/runtime/secret.ts'
import { CommandFailure, exitCodes, messageOf } from './command-failure.ts'

interface LocalKnowledge {
  servers: ServerAddresses | undefined
  stateDir: string
  cursorKey: string | undefined
  secretKey: string | undefined
  market?: string | undefined
}

/** The environment, completed; `serves`: whether the process answers clients and so needs its usual ports. */
export function settleEnvironment(environment: Environment, local: LocalKnowledge, serves: boolean): Environment {
  const defaults: Environment = {
    ...(local.servers === undefined ? {} : addressVariables(local.servers)),
    MARKETLOG_STATE_DIR: local.stateDir,
    CURSOR_KEY: local.cursorKey,
    MARKETLOG_SECRET_KEY: local.secretKey,
    ...readMarketFile(() => marketVariables(environment.MARKET || local.market || 'empty')),
    PORT: serves ? '8080' : '0',
    OPERATOR_PORT: serves ? '8081' : '0',
  }
  const settled: Record<string, string | undefined> = { ...environment }
  for (const [name, value] of Object.entries(defaults)) if (!isGiven(environment, name)) settled[name] = value
  return settled
}

/** A market file that cannot be read is its author's to mend, and no bug. */
function readMarketFile<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new CommandFailure(messageOf(error), exitCodes.badInput, error)
  }
}

const SETTINGS =
  /^((MARKETLOG|KAFKA|SCHEMA_REGISTRY|REDIS|DATABASE|CLICKHOUSE|OPERATOR|MAX)_\w+|PORT|HOST|BASE_URL|MARKET|FX_URL|TRUSTED_PROXIES|LOG_LEVEL|CURSOR_KEY(_FILE)?)$/
/** Where a platform is and what it is installed with change nothing of one that runs. */
const OF_THE_START = ['MARKETLOG_RUN_DIR', 'MARKETLOG_CACHE', 'MARKETLOG_INSTALL', 'MARKETLOG_DOCKER']

/**
 * The settings that a platform is started with, by name, to be compared with those of another start: as digests, since some are
 * secrets. A market counts by what its file says and by the variables that it names.
 */
export function settingsOf(environment: Environment): Record<string, string> {
  const market = JSON.stringify(readMarketFile(() => loadMarket(environment.MARKET || 'demo')))
  const marketSettings = [...market.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name)
  const settings = Object.keys(environment).filter(name => SETTINGS.test(name) && !OF_THE_START.includes(name))
  const values = new Map([...settings, ...marketSettings].map(name => [name, environment[name]]))
  values.set('MARKET', market).set('PORT', environment.PORT || '8080')
  const digest = (value = '') => createHash('sha256').update(value).digest('base64url')
  return Object.fromEntries([...values].filter(([, value]) => value).map(([name, value]) => [name, digest(value)]))
}

/** Servers that the user names are not reached with the credentials, or behind the pooler, of those of this machine. */
const isGiven = (environment: Environment, name: string): boolean =>
  hasSecret(environment, name.replace(/_FILE$/, '')) ||
  (name.startsWith('DATABASE_') && hasSecret(environment, 'DATABASE_URL'))

export function addressVariables(servers: ServerAddresses): Environment {
  return {
    KAFKA_BROKERS: servers.kafka.join(','),
    SCHEMA_REGISTRY_URL: servers.schemaRegistry,
    REDIS_URL: servers.redis,
    CLICKHOUSE_URL: servers.clickhouse,
    CLICKHOUSE_READONLY_URL: servers.clickhouseReadOnly,
    DATABASE_URL: servers.postgres,
    ...(servers.postgresDirect === undefined ? {} : { DATABASE_DIRECT_URL: servers.postgresDirect }),
  }
}
