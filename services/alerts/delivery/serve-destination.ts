/**
 * Serves one destination for a while: attempts what is due to it, a few at a time, and leaves.
 *
 * Reads and writes through store.ts, posts through infra/outbound. Invariant: a job ends after SLICE_MS and one more
 * request, so no destination starves, and a process serves a destination by one job at a time; a destination that answers
 * slowly, or not, is passed to the workers of the slow lane and occupies no others. An attempt that a stopping process cuts
 * off is due again at once.
 */
import { createHmac } from 'node:crypto'
import type { Outbound, PostResult } from '#infra/outbound/post.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { type AttemptOutcome, judgeAttempt } from './attempt-outcome.ts'
import { isSigned } from './event-body.ts'
import { safeExcerpt } from './excerpt.ts'
import { queueDestination } from './jobs.ts'
import { type BegunAttempt, beginAttempts, concludeAttempt, isSlow, leaveDestination } from './store.ts'

/** What serving works with. */
export interface ServingParts {
  database: Database
  outbound: Outbound
  /** Opens signing secrets; undefined without a key of the environment. */
  box: SealedBox | undefined
  /** What one request may take (DECISIONS.md, "Webhooks"). */
  limitMs: number
  /** Milliseconds since the epoch. */
  now: () => number
  /** In [0, 1). */
  chance: () => number
  /** Destinations that this process serves at the moment; `again` was asked for meanwhile. */
  served: Map<string, { again: boolean }>
  /** Called with every attempt. */
  observe: (outcome: AttemptOutcome['kind'], seconds: number) => void
}

/** Requests to one destination at the same time. */
const PER_DESTINATION = 4
const SLICE_MS = 2_000
/** An answer that takes longer makes a destination one of the slow ones for a while. */
const SLOW_ANSWER_MS = 2_000
const SLOW_FOR_MS = 600_000

/** Serves a destination; `isSlowLane`: the worker belongs to the slow lane. */
export async function serveDestination(
  parts: ServingParts,
  endpointId: string,
  isSlowLane: boolean,
  signal: AbortSignal,
): Promise<void> {
  const { database, served } = parts
  // Before it counts as served: the job that is added here may begin at once, and must not find it served.
  if (!isSlowLane && (await isSlow(database, endpointId))) {
    return queueDestination(database.rows, endpointId, { isSlow: true })
  }
  const other = served.get(endpointId)
  if (other) {
    other.again = true
    return
  }
  const own = { again: false }
  served.set(endpointId, own)
  let isPassedOn = false
  try {
    do {
      own.again = false
      const slice = openSlice(parts, endpointId, signal)
      await slice.run()
      await leaveDestination(database, endpointId, { wasSlow: slice.wasSlow(), slowForMs: SLOW_FOR_MS })
      isPassedOn = !isSlowLane && slice.wasSlow() === true
      // A job that came meanwhile has left the destination to this one, the job that was just added included.
    } while (own.again && !isPassedOn && !signal.aborted)
  } finally {
    served.delete(endpointId)
  }
  if (own.again) await queueDestination(database.rows, endpointId, { isSlow: isPassedOn })
}

/** Runs a few attempts concurrently until nothing is due or the time is over. */
function openSlice(parts: ServingParts, endpointId: string, signal: AbortSignal) {
  const endsAt = performance.now() + SLICE_MS
  let isOver = false
  let slowest: number | undefined

  const attempt = async (begun: BegunAttempt, sealedSecret: string): Promise<void> => {
    const tookMs = await attemptDelivery(parts, endpointId, begun, sealedSecret, signal)
    slowest = Math.max(slowest ?? 0, tookMs)
    if (tookMs > SLOW_ANSWER_MS) isOver = true
    if (!signal.aborted) await goOn(1)
  }
  const goOn = async (limit: number): Promise<void> => {
    if (isOver || signal.aborted || performance.now() > endsAt) return
    const { attempts, sealedSecret } = await beginAttempts(parts.database, endpointId, limit)
    const ended = await Promise.allSettled(attempts.map(begun => attempt(begun, sealedSecret)))
    for (const one of ended) if (one.status === 'rejected') throw one.reason
  }
  return {
    run: () => goOn(PER_DESTINATION),
    wasSlow: () => (slowest === undefined ? undefined : slowest > SLOW_ANSWER_MS),
  }
}

/** Posts one delivery and records its outcome; returns the milliseconds that the request took. */
async function attemptDelivery(
  parts: ServingParts,
  endpointId: string,
  begun: BegunAttempt,
  sealedSecret: string,
  signal: AbortSignal,
): Promise<number> {
  const secret = isSigned(begun.platform) ? openSecret(parts, endpointId, sealedSecret) : ''
  const headers = headersOf(begun, secret ?? '', Math.floor(parts.now() / 1_000))
  const startedAt = performance.now()
  const request = { url: begun.endpoint_url, headers, body: begun.body, limitMs: parts.limitMs, signal }
  const result = secret === undefined ? SEALED : await parts.outbound.post(request)
  const tookMs = performance.now() - startedAt
  const outcome = judgeAttempt(result, {
    failures: begun.failures,
    chance: parts.chance(),
    now: parts.now(),
    limitMs: parts.limitMs,
    platform: begun.platform,
  })
  await concludeAttempt(parts.database, begun, outcome, excerptOf(result, begun, headers, secret ?? ''))
  parts.observe(outcome.kind, tookMs / 1_000)
  return tookMs
}

/** A delivery whose secret was sealed with another key cannot be signed; a rotation or the old key repairs it. */
const SEALED: PostResult = { kind: 'unreachable', reason: 'The signing secret cannot be read; rotate it.' }

function openSecret({ box }: ServingParts, endpointId: string, sealedSecret: string): string | undefined {
  try {
    return box?.open(sealedSecret, `webhooks/${endpointId}`)
  } catch {
    return undefined
  }
}

function headersOf(begun: BegunAttempt, secret: string, timestamp: number): Record<string, string> {
  const plain = { 'Content-Type': 'application/json', 'User-Agent': 'marketlog-webhooks/1' }
  if (secret === '') return plain
  return {
    ...plain,
    'X-SVC-Event-Type': begun.event_type,
    'X-SVC-Delivery-Id': begun.id,
    'X-SVC-Timestamp': String(timestamp),
    'X-SVC-Signature': signatureOf(secret, timestamp, begun.body),
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

/**
 * Lower-case hex HMAC-SHA256 of `timestamp.body`, keyed by the secret's text as it was shown (DECISIONS.md, "Webhooks"); it
 * covers the very bytes that are sent. `timestamp` is in Unix seconds.
 */
const signatureOf = (secret: string, timestamp: number, body: string): string =>
  createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
