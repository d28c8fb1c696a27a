/**
 * Decides who may open a feed: by an API key, or by a feed token issued for one, within the connections of that key.
 *
 * A token is one stream, which may be opened again with it: a second connection takes the lease of the first, which ends. It is never
 * logged. Of a key its hash alone is kept: streams last, and the key's text need not.
 */
import { hash } from 'node:crypto'
import type { Request } from 'express'
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { ExpiringTokens } from '#infra/redis/expiring-tokens.ts'
import type { StreamLease, StreamLeases } from '#infra/redis/stream-leases.ts'
import type { Access } from '#schemas/api/operation.ts'
import { type ExceededLimit, exceededLimit } from '#schemas/api/rate-limit.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { bearerOf, hashOfKey, type KeyDirectory } from '#services/accounts/access/reader.ts'

export interface FeedAccessParts {
  keys: Pick<KeyDirectory, 'authenticate' | 'authenticateHash'>
  /** Each carries the hash of a key. */
  tokens: ExpiringTokens
  /** Streams that a tier may hold at once; 0: none at all. */
  connectionsOf(credential: Pick<Credential, 'tier'>): number
  leases: Pick<StreamLeases, 'take'>
}

export type FeedAccess = ReturnType<typeof openFeedAccess>

const UNKNOWN_TOKEN: KeyAnswer = {
  accepted: false,
  code: 'AUTH_INVALID_API_KEY',
  detail: 'This feed token has expired or is not known; get a new one from POST /feed/token.',
}

/** A lease is free again within a second or so of a disconnect. */
const RETRY_CONNECTIONS_SECONDS = 5
/** How long after its stream was alive a token opens it again (DECISIONS.md, "Feeds"). */
const REOPEN_MS = 15 * MINUTE_MS
const KEEP_EVERY_MS = MINUTE_MS

/** How long a client waits that was refused because a server is lost. */
export const RETRY_UNAVAILABLE_SECONDS = 2

export const unavailable = (cause?: unknown): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'The feeds are not available at the moment; try again with a growing delay.', {
    headers: ['Retry-After', String(RETRY_UNAVAILABLE_SECONDS)],
    cause,
  })

const tokenOf = (url: string): string | undefined => /[?&]token=([^&]*)/.exec(url)?.[1]

export function openFeedAccess({ keys, tokens, connectionsOf, leases }: FeedAccessParts) {
  const holders = new WeakMap<Request, { keyHash: string; token?: string }>()
  const hashOfAccepted = (request: Request): string => {
    const holder = holders.get(request)
    if (holder === undefined) throw new Error('the request has no key that was accepted')
    return holder.keyHash
  }
  const lost = (cause: unknown): never => {
    throw unavailable(cause)
  }
  const take = async (request: Request, subject: string, limit: ExceededLimit, detail: string) => {
    const token = holders.get(request)?.token
    const name = token && hash('sha256', token, 'base64url')
    const lease = await leases.take(subject, limit.quota, name).catch(lost)
    if (lease) return lease
    throw new HttpError('RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED', detail, { exceeded: limit })
  }
  /** One of the connections that a key may hold, whose token opens it again for some time after it was alive. */
  const lease = async (request: Request, credential: Credential): Promise<StreamLease> => {
    const max = connectionsOf(credential)
    const taken = await take(
      request,
      credential.lineageId,
      exceededLimit('feed-connections', max, RETRY_CONNECTIONS_SECONDS),
      `This key holds its ${max} feed connections already; close one and try again.`,
    )
    const token = holders.get(request)?.token
    if (token === undefined) return taken
    const keep = (): void => void tokens.keep(token, REOPEN_MS).catch(() => undefined)
    keep()
    const keeping = setInterval(keep, KEEP_EVERY_MS)
    return {
      replaced: taken.replaced,
      release() {
        clearInterval(keeping)
        taken.release()
      },
    }
  }
  return {
    lease,
    /** Such a connection, and the one replay that an account may have open, over all of its keys. */
    async leaseReplay(request: Request, credential: Credential): Promise<StreamLease> {
      const connection = await lease(request, credential)
      const detail = 'This account has a replay open already; end that one and try again.'
      const limit = exceededLimit('replays', 1, RETRY_CONNECTIONS_SECONDS)
      const replay = await take(request, `replay:${credential.accountId}`, limit, detail).catch(error => {
        connection.release()
        throw error
      })
      return {
        replaced: AbortSignal.any([connection.replaced, replay.replaced]),
        release() {
          replay.release()
          connection.release()
        },
      }
    },
    async authenticate(request: Request, access: Access): Promise<KeyAnswer> {
      const { authorization } = request.headers
      const token = access === 'stream' && authorization === undefined ? tokenOf(request.url) : undefined
      if (token === undefined) {
        const key = bearerOf(authorization)
        if (key !== undefined) holders.set(request, { keyHash: hashOfKey(key) })
        return keys.authenticate(authorization)
      }
      const keyHash = await tokens.read(token)
      if (keyHash === undefined) return UNKNOWN_TOKEN
      holders.set(request, { keyHash, token })
      return keys.authenticateHash(keyHash)
    },
    recheckOf(request: Request): () => KeyAnswer | Promise<KeyAnswer> {
      const keyHash = hashOfAccepted(request)
      return () => keys.authenticateHash(keyHash)
    },
    issueToken: (request: Request) => tokens.issue(hashOfAccepted(request)).catch(lost),
  }
}
