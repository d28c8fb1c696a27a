/**
 * Serves one destination: attempts what is due to it, one delivery after the other, and leaves.
 *
 * Reads and writes through store.ts, posts through infra/outbound. States: attempting -> (nothing is due, an attempt is to be
 * retried, an answer was slow, the process stops) -> left, with a job for what is due next. A retry takes along what else is
 * due, so a dead destination occupies a worker for one attempt at a time; a slow one lets others go first after each answer.
 * An attempt that a stopping process cuts off is due again at once.
 */
import { createHmac } from 'node:crypto'
import type { Outbound, PostResult } from '#infra/outbound/post.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { type AttemptOutcome, classifyAttempt, safeExcerpt } from './attempt-outcome.ts'
import { isSigned } from './event-body.ts'
import { type BegunAttempt, beginAttempt, concludeAttempt, leaveDestination } from './store.ts'

export interface ServingParts {
  database: Database
  outbound: Outbound
  /** Opens signing secrets; undefined without a key of the environment. */
  box: SealedBox | undefined
  /** Of one request (DECISIONS.md, "Webhooks"). */
  limitMs: number
}

/** After an answer that took longer the job goes behind those of other destinations. */
const PROMPT_MS = 1_000

/** Serves a destination until nothing is due to it, or others come first. */
export async function serveDestination(parts: ServingParts, endpointId: string, signal: AbortSignal): Promise<void> {
  let retriedId: string | undefined
  for (let isPrompt = true; isPrompt && retriedId === undefined && !signal.aborted; ) {
    const begun = await beginAttempt(parts.database, endpointId)
    if (!begun) break
    const startedAt = performance.now()
    if ((await attemptDelivery(parts, endpointId, begun, signal)) === 'retried') retriedId = begun.id
    isPrompt = performance.now() - startedAt < PROMPT_MS
  }
  await leaveDestination(parts.database, endpointId, retriedId)
}

async function attemptDelivery(
  { database, outbound, box, limitMs }: ServingParts,
  endpointId: string,
  begun: BegunAttempt,
  signal: AbortSignal,
): Promise<AttemptOutcome['kind']> {
  const secret = isSigned(begun.platform) ? openSecret(box, endpointId, begun.sealed_secret) : ''
  const headers = headersOf(begun, secret ?? '', Math.floor(Date.now() / 1_000))
  const request = { url: begun.endpoint_url, headers, body: begun.body, limitMs, signal }
  const result = secret === undefined ? SEALED : await outbound.post(request)
  const { failures, platform } = begun
  const context = { failures, platform, limitMs, chance: Math.random(), now: Date.now() }
  const outcome = classifyAttempt(result, context)
  await concludeAttempt(database, begun, outcome, excerptOf(result, begun, headers, secret ?? ''))
  return outcome.kind
}

/** A delivery whose secret was sealed with another key cannot be signed; a rotation or the old key repairs it. */
const SEALED: PostResult = { kind: 'unreachable', reason: 'The signing secret cannot be read; rotate it.' }

function openSecret(box: SealedBox | undefined, endpointId: string, sealedSecret: string): string | undefined {
  try {
    return box?.open(sealedSecret, `webhooks/${endpointId}`)
  } catch {
    return undefined
  }
}

/**
 * The signature is the lower-case hex HMAC-SHA256 of `timestamp.body`, keyed by the secret's text as it was shown (DECISIONS.md,
 * "Webhooks"); it covers the very bytes that are sent. `timestamp` is in Unix seconds.
 */
function headersOf(begun: BegunAttempt, secret: string, timestamp: number): Record<string, string> {
  const plain = { 'Content-Type': 'application/json', 'User-Agent': 'marketlog-webhooks/1' }
  if (secret === '') return plain
  return {
    ...plain,
    'X-SVC-Event-Type': begun.event_type,
    'X-SVC-Delivery-Id': begun.id,
    'X-SVC-Timestamp': String(timestamp),
    'X-SVC-Signature': createHmac('sha256', secret).update(`${timestamp}.${begun.body}`).digest('hex'),
    ...(begun.is_test && { 'X-SVC-Test': 'true' }),
  }
}

/** A receiver may echo its request: neither the signature nor the secret parts of the URL are kept. */
function excerptOf(
  result: PostResult,
  begun: BegunAttempt,
  headers: Record<string, string>,
  secret: string,
): string | null {
  if (result.kind !== 'answered') return null
  const { pathname, search } = new URL(begun.endpoint_url)
  const secrets = [secret, headers['X-SVC-Signature'] ?? '', pathname + search, ...pathname.split('/'), search]
  return safeExcerpt(result.excerpt, secrets)
}
