/**
 * Refusals of brokers and the registry for good, beside those that other rooms throw as `Refused` (credentials, a certificate, a right), and
 * how long failures are retried.
 *
 * Recognized by codes and types of errors, never by their text. No line quotes a secret.
 */
import { Refused, refusedSide } from '../runtime/refused.ts'
import { openCluster } from './client/cluster.ts'
import { BROKER_RETRY_LIMIT_MS, type KafkaConnection } from './connection.ts'

const AUTHENTICATION_NAMES = new Set(['KafkaJSSASLAuthenticationError', 'KafkaJSUnsupportedSaslMechanismError'])
const AUTHENTICATION_TYPES = new Set(['SASL_AUTHENTICATION_FAILED', 'UNSUPPORTED_SASL_MECHANISM', 'ILLEGAL_SASL_STATE'])

interface Shape {
  name?: string
  type?: string
  code?: string
  status?: number | (() => number)
  broker?: string
  cause?: unknown
  originalError?: unknown
  errors?: readonly unknown[]
  message?: string
}

/** A cluster that cannot hold what is asked of it; its message says what to set. */
export class UnfitCluster extends Error {}

/** One line that names what is refused and what to check; undefined for any other error. */
export function refusalOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  if (error instanceof UnfitCluster || error instanceof Refused) return error.message
  const { name = '', type = '', code = '', status, broker, cause, originalError, errors = [], message } = error as Shape
  const at = broker === undefined ? 'Kafka' : `the broker ${broker}`
  const side = refusedSide({ code })
  if (side === 'server')
    return `the certificate of ${at} is not accepted (${code}); check its dates and names, and the authority in KAFKA_TLS_CA or SCHEMA_REGISTRY_CA`
  if (side === 'client')
    return `${at} does not accept this client's certificate (${code}); check KAFKA_TLS_CERT and KAFKA_TLS_KEY`
  if (AUTHENTICATION_NAMES.has(name) || AUTHENTICATION_TYPES.has(type))
    return 'Kafka refuses the credentials; check KAFKA_SASL, KAFKA_USER and KAFKA_PASSWORD'
  if (type.endsWith('_AUTHORIZATION_FAILED'))
    return `Kafka refuses access: ${message} (${type}); \`marketlog acls\` prints what each role needs`
  if (status === 401 || status === 403)
    return `the schema registry refuses the credentials (${status}); check SCHEMA_REGISTRY_USER and SCHEMA_REGISTRY_PASSWORD, or SCHEMA_REGISTRY_TOKEN`
  for (const inner of [cause, originalError, ...errors]) {
    const line = refusalOf(inner)
    if (line !== undefined) return line
  }
  return undefined
}

/** How long refusals are retried: a right or a certificate that is being replaced is there again by then. */
const REFUSED_FOR_MS = 10_000

/** Opens the limit of one reader; `now` is a monotonic clock in milliseconds. */
export function openRefusalLimit(now: () => number) {
  let since: number | undefined
  return {
    /** Whether an error is a refusal, and brokers have refused for {@link REFUSED_FOR_MS} without an answer in between. */
    isReached(error: unknown): boolean {
      if (refusalOf(error) === undefined) return false
      since ??= now()
      return now() - since >= REFUSED_FOR_MS
    },
    answered(): void {
      since = undefined
    },
  }
}

const PAUSES = { firstMs: 200, longestMs: 5_000 }

/** Bounded backoff: growing pauses, for ten minutes of nothing but failures, or ten seconds of refusals. */
export function openBackoff(now: () => number, { firstMs, longestMs } = PAUSES) {
  let since: number | undefined
  let pause = firstMs
  const refusals = openRefusalLimit(now)
  return {
    /** Returns how long to pause, in milliseconds; throws the error at the limit. */
    failed(error: unknown): number {
      since ??= now()
      if (refusals.isReached(error) || now() - since > BROKER_RETRY_LIMIT_MS) throw error
      const current = pause
      pause = Math.min(longestMs, pause * 2)
      return current
    },
    succeeded(): void {
      since = undefined
      refusals.answered()
      pause = firstMs
    },
  }
}

/**
 * Connects once, so that a refusal is seen before roles begin to wait for brokers. Throws what brokers refuse with; no answer is
 * no refusal.
 */
export async function checkAccess(kafka: KafkaConnection): Promise<void> {
  const cluster = openCluster(kafka, 'access')
  try {
    await cluster.connect()
  } catch (error) {
    if (refusalOf(error) !== undefined) throw error
  } finally {
    await cluster.disconnect()
  }
}
