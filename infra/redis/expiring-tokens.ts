/**
 * Tokens that open something for a while: reading one returns the text that it was issued for.
 *
 * Writes one Redis key per token, named by its SHA-256, with an expiry: a reader of the store learns no token. Rejects when
 * Redis does not answer.
 */
import { hash, randomBytes } from 'node:crypto'
import { type Redis, requireReady } from './redis.ts'

/** A token, shown once. */
export interface IssuedToken {
  token: string
  /** Milliseconds since the epoch. */
  expiresAt: number
}

export interface ExpiringTokens {
  issue(text: string): Promise<IssuedToken>
  /** The text of a token that has not expired. */
  read(token: string): Promise<string | undefined>
  /** Lets a token that has not expired last for `ttlMs` from now at least. */
  keep(token: string, ttlMs: number): Promise<void>
}

interface ExpiringTokenOptions {
  prefix: string
  /** Kind of the tokens; part of their keys, so that no other kind is accepted. */
  name: string
  ttlMs: number
  now: () => number
}

const TOKEN_BYTES = 32
const TOKEN_FORM = /^[A-Za-z0-9_-]{43}$/

export function openExpiringTokens(redis: Redis, options: ExpiringTokenOptions): ExpiringTokens {
  const { prefix, name, ttlMs, now } = options
  const keyOf = (token: string): string => `${prefix}${name}-token:${hash('sha256', token, 'hex')}`
  return {
    async issue(text) {
      requireReady(redis)
      const token = randomBytes(TOKEN_BYTES).toString('base64url')
      const expiresAt = now() + ttlMs
      await redis.set(keyOf(token), text, 'PX', ttlMs)
      return { token, expiresAt }
    },
    async read(token) {
      if (!TOKEN_FORM.test(token)) return undefined
      requireReady(redis)
      return (await redis.get(keyOf(token))) ?? undefined
    },
    async keep(token, ttlMs) {
      requireReady(redis)
      await redis.pexpire(keyOf(token), ttlMs, 'GT')
    },
  }
}
