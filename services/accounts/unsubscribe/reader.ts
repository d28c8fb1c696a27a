/**
 * The link at the end of a mail by which its receiver ends such mails, without signing in.
 *
 * Reads and writes nothing. Invariant: a token names one account and one kind of mail, and only the holder of the
 * environment's key can make it; it holds no address and does not expire, since mails are kept for years.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

/** Makes and reads the links' tokens. */
export interface UnsubscribeLinks {
  /** The link of an account. */
  linkFor(accountId: string): string
  /** The account of a token; undefined when it was not made with this key. */
  accountOf(token: string): string | undefined
}

const PURPOSE = 'unsubscribe alert mails'
const ID_BYTES = 16
const TAG_BYTES = 16
const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** Path of the links; the route of the API answers there. */
export const UNSUBSCRIBE_PATH = '/v1/unsubscribe'

/** Opens links below a public root; `secretKey` is the environment's. */
export function openUnsubscribeLinks(secretKey: string, baseUrl: string): UnsubscribeLinks {
  // A key of its own, so that a token is of no use anywhere else.
  const key = createHmac('sha256', Buffer.from(secretKey, 'base64')).update(PURPOSE).digest()
  const tagOf = (id: Buffer): Buffer => createHmac('sha256', key).update(id).digest().subarray(0, TAG_BYTES)
  return {
    linkFor(accountId) {
      const id = Buffer.from(accountId.replaceAll('-', ''), 'hex')
      return `${baseUrl}${UNSUBSCRIBE_PATH}?token=${Buffer.concat([id, tagOf(id)]).toString('base64url')}`
    },
    accountOf(token) {
      const bytes = TOKEN.test(token) ? Buffer.from(token, 'base64url') : Buffer.alloc(0)
      if (bytes.length !== ID_BYTES + TAG_BYTES) return undefined
      const id = bytes.subarray(0, ID_BYTES)
      if (!timingSafeEqual(bytes.subarray(ID_BYTES), tagOf(id))) return undefined
      const hex = id.toString('hex')
      const parts = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)]
      return parts.join('-')
    },
  }
}
