/**
 * Encrypts what must be stored and read again: secrets of webhooks, private signing keys, mails that wait.
 *
 * AES-256-GCM with the key of the environment (MARKETLOG_SECRET_KEY). A sealed text is `v1.` and base64url of 12
 * bytes of nonce, the ciphertext and 16 bytes of tag. Invariant: a text opens only with the key and the location
 * that it was sealed for, so a row copied to another row or column does not open. Nonces are random, which
 * NIST SP 800-38D (8.3) allows for 2^32 texts of one key.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

export type SealedBox = ReturnType<typeof openSealedBox>

const CIPHER = 'aes-256-gcm'
const VERSION = 'v1.'
const NONCE_BYTES = 12
const TAG_BYTES = 16
const KEY_BYTES = 32
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/

/** Whether a text is a key: 32 bytes in base64. */
export const isSecretKey = (text: string): boolean => BASE64.test(text)

export const newSecretKey = (): string => randomBytes(KEY_BYTES).toString('base64')

/** Opens the box of a key; throws when it is none. */
export function openSealedBox(secretKey: string) {
  if (!isSecretKey(secretKey)) throw new Error('MARKETLOG_SECRET_KEY must be 32 bytes in base64')
  const key = Buffer.from(secretKey, 'base64')
  return {
    /** Encrypts; `location` names where the text is stored, for example `webhooks/<id>`. */
    seal(text: string, location: string): string {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(location))
      const parts = [nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
      return VERSION + Buffer.concat(parts).toString('base64url')
    },
    /** Decrypts; throws when the text was not sealed with this key for this location. */
    open(sealed: string, location: string): string {
      const bytes = Buffer.from(sealed.slice(VERSION.length), 'base64url')
      if (!sealed.startsWith(VERSION) || bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error('no sealed text')
      const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
      decipher.setAAD(Buffer.from(location)).setAuthTag(bytes.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString()
    },
  }
}
