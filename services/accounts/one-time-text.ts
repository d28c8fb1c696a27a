/**
 * Texts that prove something once: states, codes, links, refresh tokens.
 *
 * Draws random bytes, stores nothing. Invariant: only {@link hashOf} of a text is stored; 256 random bits need no salt.
 */
import { hash, randomBytes } from 'node:crypto'

/** Draws a text of 43 characters; `prefix` names its purpose. */
export const newText = (prefix = ''): string => prefix + randomBytes(32).toString('base64url')

/** SHA-256 of a text, as it is stored. */
export const hashOf = (text: string): Buffer => hash('sha256', text, 'buffer')
