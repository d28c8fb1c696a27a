/**
 * Settings of the way to Kafka and to the schema registry: TLS, credentials, replication.
 *
 * Reads only the environment that it is given, and whether the files that it names are there. Certificates and secrets are read
 * when a connection is opened, so that new files are in force without a restart.
 */
import { type Environment, hasSecret, readSecret, type Secret } from './secret.ts'
import { readFileName, readTlsFileNames, type TlsFiles } from './tls-files.ts'

const MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512'] as const

interface SaslSettings {
  mechanism: (typeof MECHANISMS)[number]
  user: string
  password: Secret
}

export interface KafkaSettings {
  tls: TlsFiles | undefined
  sasl: SaslSettings | undefined
  /** Undefined: the most that the cluster has, up to three. */
  replicationFactor: number | undefined
  /** Undefined: one less than the replication factor. */
  minInsyncReplicas: number | undefined
}

export interface RegistrySettings {
  ca: string | undefined
  basic: { user: string; password: Secret } | undefined
  token: Secret | undefined
}

export function readKafkaSettings(env: Environment, faults: string[]): KafkaSettings {
  const replicationFactor = readCount(env, 'KAFKA_REPLICATION_FACTOR', faults)
  const minInsyncReplicas = readCount(env, 'KAFKA_MIN_INSYNC_REPLICAS', faults)
  if (replicationFactor !== undefined && (minInsyncReplicas ?? 1) > replicationFactor)
    faults.push('KAFKA_MIN_INSYNC_REPLICAS is above KAFKA_REPLICATION_FACTOR')
  return { tls: readTls(env, faults), sasl: readSasl(env, faults), replicationFactor, minInsyncReplicas }
}

function readTls(env: Environment, faults: string[]): TlsFiles | undefined {
  const setting = env.KAFKA_TLS || ''
  if (!['', 'true', 'false'].includes(setting)) faults.push('KAFKA_TLS must be true or false')
  const files = readTlsFileNames(env, 'KAFKA_TLS', faults)
  if (setting === 'false' && files) faults.push('KAFKA_TLS is false, but its files are named')
  return setting === 'true' ? (files ?? { ca: undefined, certificate: undefined, key: undefined }) : files
}

function readSasl(env: Environment, faults: string[]): SaslSettings | undefined {
  const password = readSecret(env, 'KAFKA_PASSWORD', faults)
  if (!env.KAFKA_SASL) {
    if (env.KAFKA_USER || password) faults.push(`KAFKA_SASL is not set, KAFKA_USER or KAFKA_PASSWORD is`)
    return undefined
  }
  const mechanism = MECHANISMS.find(name => name === env.KAFKA_SASL)
  if (mechanism === undefined) faults.push(`KAFKA_SASL must be ${MECHANISMS.join(', ')}, not ${env.KAFKA_SASL}`)
  if (!env.KAFKA_USER) faults.push('KAFKA_USER is not set, KAFKA_SASL is')
  if (password === undefined) faults.push('KAFKA_PASSWORD or KAFKA_PASSWORD_FILE is not set, KAFKA_SASL is')
  if (mechanism === undefined || password === undefined) return undefined
  return { mechanism, user: env.KAFKA_USER ?? '', password }
}

export function readRegistrySettings(env: Environment, faults: string[]): RegistrySettings {
  const password = readSecret(env, 'SCHEMA_REGISTRY_PASSWORD', faults)
  const user = env.SCHEMA_REGISTRY_USER || undefined
  if ((user === undefined) !== (password === undefined))
    faults.push('SCHEMA_REGISTRY_USER and SCHEMA_REGISTRY_PASSWORD go together')
  if (user !== undefined && hasSecret(env, 'SCHEMA_REGISTRY_TOKEN'))
    faults.push('SCHEMA_REGISTRY_TOKEN and SCHEMA_REGISTRY_USER are both set')
  return {
    ca: readFileName(env, 'SCHEMA_REGISTRY_CA', faults),
    basic: user === undefined || password === undefined ? undefined : { user, password },
    token: readSecret(env, 'SCHEMA_REGISTRY_TOKEN', faults),
  }
}

function readCount(env: Environment, name: string, faults: string[]): number | undefined {
  if (!env[name]) return undefined
  const count = Number(env[name])
  if (Number.isInteger(count) && count >= 1) return count
  faults.push(`${name} must be a whole number above 0, not ${env[name]}`)
  return undefined
}
