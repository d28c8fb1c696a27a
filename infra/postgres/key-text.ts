/**
 * The text of an API key: prefix, underscore, 43 characters of base64url from 32 random bytes.
 *
 * Draws random bytes, stores nothing. Invariant: only {@link hashOfKey} of a text may be stored, logged
 * or compared; 256 random bits need no salt.
 */
import { hash, randomBytes } from 'node:crypto'

/** Root keys manage children; child keys only read data. */
export type KeyKind = 'root' | 'child'

const KEY_FORM = /^sk_live_(?:root|child)_[A-Za-z0-9_-]{43}$/

/** The visible prefix of a kind of key. */
export const keyPrefix = (kind: KeyKind): string => `sk_live_${kind}`

/** Draws a new key; shown once, then only its hash is known. */
export const newKeyText = (kind: KeyKind): string => `${keyPrefix(kind)}_${randomBytes(32).toString('base64url')}`

/** Whether a text has the form of a key. */
export const isKeyText = (text: string): boolean => KEY_FORM.test(text)

/** SHA-256 of a key's text, as 64 hexadecimal digits. */
export const hashOfKey = (text: string): string => hash('sha256', text, 'hex')
