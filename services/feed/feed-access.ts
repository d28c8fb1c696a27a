/**
 * Decides who may open a feed: by an API key, or by a feed token issued for one, within the connections of that key.
 *
 * A token is redeemed by the request that brings it, whatever its outcome, and is never logged. Of a key its hash alone is kept:
 * streams last, and the key's text need not.
 */
import type { Request } from 'express'
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { IssuedToken, OneTimeTokens } from '#infra/redis/one-time-tokens.ts'
import type { StreamLease, StreamLeases } from '#infra/redis/stream-leases.ts'
import type { Access } from '#schemas/api/operation.ts'
import { type ExceededLimit, exceededLimit } from '#schemas/api/rate-limit.ts'
import { bearerOf, hashOfKey, type KeyDirectory } from '#services/accounts/access/reader.ts'
import { tokenOf } from './feed-query.ts'

/** What decides on access. */
export interface FeedAccessNeeds {
  keys: Pick<KeyDirectory, 'judge' | 'judgeHash'>
  /** Each carries the hash of a key. */
  tokens: OneTimeTokens
  /** Streams that a tier may hold at once; 0: none at all. */
  connectionsOf(credential: Pick<Credential, 'tier'>): number
  leases: Pick<StreamLeases, 'take'>
}

/** Decides on access. */
export interface FeedAccess {
  /** Judges the key or, for a stream, the feed token of a request. */
  authenticate(request: Request, access: Access): Promise<KeyAnswer>
  /** Judges the key of an accepted request again. */
  recheckOf(request: Request): () => KeyAnswer | Promise<KeyAnswer>
  /** One of the connections that a key may hold; rejects with the refusal. */
  lease(credential: Credential): Promise<StreamLease>
  /** Such a connection, and the one replay that an account may have open, over all of its keys. */
  leaseReplay(credential: Credential): Promise<StreamLease>
  /** A token with the rights of the key that asks for it. */
  issueToken(request: Request): Promise<IssuedToken>
}

const UNKNOWN_TOKEN: KeyAnswer = {
  accepted: false,
  code: 'AUTH_INVALID_API_KEY',
  detail: 'This feed token was used before, has expired or is not known; get a new one from POST /feed/token.',
}

/** A lease is free again within a second or so of a disconnect. */
const RETRY_CONNECTIONS_SECONDS = 5

/** How long a client waits that was refused because a server is lost. */
export const RETRY_UNAVAILABLE_SECONDS = 2

/** A server that the feed needs does not answer. */
export const unavailable = (cause?: unknown): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'The feeds are not available at the moment; try again with a growing delay.', {
    headers: ['Retry-After', String(RETRY_UNAVAILABLE_SECONDS)],
    cause,
  })

/** Opens the access to the feeds. */
export function openFeedAccess({ keys, tokens, connectionsOf, leases }: FeedAccessNeeds): FeedAccess {
  const hashes = new WeakMap<Request, string>()
  const lost = (cause: unknown): never => {
    throw unavailable(cause)
  }
  const take = async (subject: string, limit: ExceededLimit, detail: string): Promise<StreamLease> => {
    const lease = await leases.take(subject, limit.quota).catch(lost)
    if (lease) return lease
    throw new HttpError('RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED', detail, { exceeded: limit })
  }
  const lease: FeedAccess['lease'] = credential => {
    const max = connectionsOf(credential)
    return take(
      credential.lineageId,
      exceededLimit('feed-connections', max, RETRY_CONNECTIONS_SECONDS),
      `This key holds its ${max} feed connections already; close one and try again.`,
    )
  }
  return {
    lease,
    async leaseReplay(credential) {
      const connection = await lease(credential)
      const detail = 'This account has a replay open already; end that one and try again.'
      const limit = exceededLimit('replays', 1, RETRY_CONNECTIONS_SECONDS)
      const replay = await take(`replay:${credential.accountId}`, limit, detail).catch(error => {
        connection.release()
        throw error
      })
      return {
        release() {
          replay.release()
          connection.release()
        },
      }
    },
    async authenticate(request, access) {
      const { authorization } = request.headers
      const token = access === 'stream' && authorization === undefined ? tokenOf(request.url) : undefined
      if (token === undefined) {
        const key = bearerOf(authorization)
        if (key !== undefined) hashes.set(request, hashOfKey(key))
        return keys.judge(authorization)
      }
      const hash = await tokens.redeem(token)
      if (hash === undefined) return UNKNOWN_TOKEN
      hashes.set(request, hash)
      return keys.judgeHash(hash)
    },
    recheckOf(request) {
      const hash = hashes.get(request)
      return () => (hash === undefined ? UNKNOWN_TOKEN : keys.judgeHash(hash))
    },
    async issueToken(request) {
      const hash = hashes.get(request)
      if (hash === undefined) throw new Error('a token was asked for without the key that was accepted')
      return tokens.issue(hash).catch(lost)
    },
  }
}
