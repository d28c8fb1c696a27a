/**
 * Decides who may open a feed: by an API key, or by a feed token issued for one, within the limits of that key.
 *
 * A token is redeemed by the request that brings it, whatever its outcome, and is never logged. Invariant: what cannot be
 * checked or counted because a store is lost is refused with 503. A tier without feeds gets its limits in the headers and
 * is not counted.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import type { IssuedToken, OneTimeTokens } from '#infra/redis/one-time-tokens.ts'
import type { StreamLease, StreamLeases } from '#infra/redis/stream-leases.ts'
import type { Log } from '#infra/runtime/log.ts'
import { bearerOf, hashOfKey, type KeyDirectory } from '#services/accounts/access/reader.ts'
import { Refusal, tooMany, unavailable } from './refusal.ts'
import type { FeedLimits } from './request-limits.ts'

/** What decides on access. */
export interface FeedAccess {
  keys: Pick<KeyDirectory, 'judge' | 'judgeHash'>
  /** Each carries the hash of a key. */
  tokens: OneTimeTokens
  /** Streams that a tier may hold at once; 0: none at all. */
  connectionsOf(credential: Credential): number
  leases: Pick<StreamLeases, 'take'>
  limits: FeedLimits
  /** Called with every accepted key. */
  noteUse(keyId: string): void
  log: Log
}

/** An accepted caller. */
interface Caller {
  credential: Credential
  /** Judges the same key again. */
  recheck(): KeyAnswer | Promise<KeyAnswer>
}

const UNKNOWN_TOKEN: KeyAnswer = {
  accepted: false,
  code: 'AUTH_INVALID_API_KEY',
  detail: 'This feed token was used before, has expired or is not known; get a new one from POST /feed/token.',
}

/** A lease is free again within a second or so of a disconnect. */
const RETRY_CONNECTIONS_SECONDS = 5

/** Accepts a caller whose key may use the feeds, and counts the request; throws the refusal. */
export async function callerOf(
  request: IncomingMessage,
  response: ServerResponse,
  token: string | undefined,
  access: FeedAccess,
): Promise<Caller> {
  const { limits, log } = access
  const { answer, recheck } = await judged(request.headers.authorization, token, access).catch(error => {
    log.warn({ err: error }, 'a key or feed token cannot be checked')
    throw unavailable()
  })
  if (!answer.accepted) {
    const waitSeconds = await limits.countAddress(request.socket.remoteAddress)
    throw waitSeconds === undefined ? new Refusal(answer.code, answer.detail) : tooMany(waitSeconds)
  }
  const { credential } = answer
  access.noteUse(credential.keyId)
  if (access.connectionsOf(credential) === 0) {
    setHeaders(response, await limits.show(credential))
    throw new Refusal('FORBIDDEN_TIER', `The feeds are not part of the tier ${credential.tier}.`)
  }
  const counted = await limits.count(credential).catch(error => {
    log.warn({ err: error }, 'a connect cannot be counted')
    throw unavailable()
  })
  setHeaders(response, counted.headers)
  if (counted.waitSeconds !== undefined) throw tooMany(counted.waitSeconds)
  return { credential, recheck }
}

/** One of the connections that a key may hold; throws the refusal. */
export async function leaseOf({ credential }: Caller, access: FeedAccess): Promise<StreamLease> {
  const max = access.connectionsOf(credential)
  const lease = await access.leases.take(credential.keyId, max).catch(error => {
    access.log.warn({ err: error }, 'a connection cannot be counted')
    throw unavailable()
  })
  if (lease) return lease
  const detail = `This key holds its ${max} feed connections already; close one and try again.`
  throw new Refusal('RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED', detail, {
    'retry-after': String(RETRY_CONNECTIONS_SECONDS),
  })
}

/** A token with the rights of the key that asks for it. */
export async function issueToken(request: IncomingMessage, access: FeedAccess): Promise<IssuedToken> {
  const key = bearerOf(request.headers.authorization)
  if (key === undefined) throw new Error('a token was asked for without the key that was accepted')
  return await access.tokens.issue(hashOfKey(key)).catch(error => {
    access.log.warn({ err: error }, 'a feed token cannot be stored')
    throw unavailable()
  })
}

interface Judged {
  answer: KeyAnswer
  recheck(): KeyAnswer | Promise<KeyAnswer>
}

async function judged(
  authorization: string | undefined,
  token: string | undefined,
  { keys, tokens }: FeedAccess,
): Promise<Judged> {
  if (authorization !== undefined || token === undefined) {
    const key = bearerOf(authorization)
    return { answer: await keys.judge(authorization), recheck: recheckOf(keys, key && hashOfKey(key)) }
  }
  const hash = await tokens.redeem(token)
  if (hash === undefined) return { answer: UNKNOWN_TOKEN, recheck: () => UNKNOWN_TOKEN }
  return { answer: await keys.judgeHash(hash), recheck: recheckOf(keys, hash) }
}

/** Keeps the hash alone: streams last, and the key's text need not. */
const recheckOf = (keys: FeedAccess['keys'], hash: string | undefined) => () =>
  hash === undefined ? UNKNOWN_TOKEN : keys.judgeHash(hash)

function setHeaders(response: ServerResponse, headers: readonly string[]): void {
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i] as string, headers[i + 1] as string)
}
