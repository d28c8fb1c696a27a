/**
 * What is kept of an answer's body: a short text without control characters and without secrets.
 *
 * Invariant: at most 1024 bytes of UTF-8; control characters and text direction marks are removed; it never holds the given
 * secrets, or keys and signing secrets of this service, even when a receiver echoes them.
 */

const EXCERPT_BYTES = 1_024
const CUT = '[cut]'

/** Keys and signing secrets of this service. */
const OWN_SECRETS = /(sk_live_(?:root|child)_|whsec_)[A-Za-z0-9_-]+/g
/** Controls but line feed, format characters (bidi among them), surrogates, private use, and U+FFFD. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\uFFFD]/gu

/** The text of an answer that may be stored and shown; null when nothing is left. */
export function safeExcerpt(bytes: Buffer, secrets: readonly string[]): string | null {
  let text = bytes.toString('utf8').replaceAll(/\r\n?/g, '\n').replaceAll('\t', ' ')
  text = text.replaceAll(UNSAFE, mark => (mark === '\n' ? mark : ''))
  for (const secret of secrets) if (secret.length >= 8) text = text.replaceAll(secret, CUT)
  text = text.replaceAll(OWN_SECRETS, CUT).trim()
  return text === '' ? null : cutToBytes(text, EXCERPT_BYTES)
}

/** A prefix of at most so many bytes that ends between characters. */
function cutToBytes(text: string, most: number): string {
  if (Buffer.byteLength(text) <= most) return text
  const bytes = Buffer.from(text).subarray(0, most)
  // Whole characters alone survive; the stream keeps what a character lacks.
  return new TextDecoder('utf-8').decode(bytes, { stream: true })
}
