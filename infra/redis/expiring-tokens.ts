/**
 * Tokens that open something for a while: reading one returns the text that it was issued for.
 *
 * Writes one Redis key per token, named by its SHA-256, with an expiry: a reader of the store learns no token. Rejects when
 * Redis does not answer.
 */
import { hash, randomBytes } from 'node:crypto'
import { type Redis, requireReady } from './redis.ts'

export type ExpiringTokens = ReturnType<typeof openExpiringTokens>

const TOKEN_BYTES = 32
const TOKEN_FORM = /^[A-Za-z0-9_-]{43}$/

/** `name` is the kind of the tokens, a part of their keys, so that no other kind is accepted. */
export function openExpiringTokens(
  redis: Redis,
  { prefix, name, ttlMs, now }: { prefix: string; name: string; ttlMs: number; now: () => number },
) {
  const keyOf = (token: string): string => `${prefix}${name}-token:${hash('sha256', token, 'hex')}`
  return {
    /** A new token, to be shown once, and when it expires, in milliseconds since the epoch. */
    async issue(text: string): Promise<{ token: string; expiresAt: number }> {
      requireReady(redis)
      const token = randomBytes(TOKEN_BYTES).toString('base64url')
      const expiresAt = now() + ttlMs
      await redis.set(keyOf(token), text, 'PX', ttlMs)
      return { token, expiresAt }
    },
    /** The text of a token that has not expired. */
    async read(token: string): Promise<string | undefined> {
      if (!TOKEN_FORM.test(token)) return undefined
      requireReady(redis)
      return (await redis.get(keyOf(token))) ?? undefined
    },
    /** Lets a token that has not expired last for a time from now at least. */
    async keep(token: string, ttlMs: number): Promise<void> {
      requireReady(redis)
      await redis.pexpire(keyOf(token), ttlMs, 'GT')
    },
  }
}
