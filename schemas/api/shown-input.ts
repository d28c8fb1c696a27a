/**
 * Cuts the input that a violation repeats.
 *
 * Clients log errors and pass them on, so keys, tokens and secrets of this platform are cut out, wherever a client
 * sent them by mistake. Everything else is repeated unchanged up to SHOWN_MAX characters; of what is longer, the
 * beginning of its text. Invariant: the cost does not grow with the input.
 */

const SHOWN_MAX = 200
/** Read of an input, in characters: no secret of ours that begins in what is shown is longer. */
const READ_MAX = 2_048
/** Each run of letters is scanned once, so that no text takes long. */
const SECRETS = /(sk_live_(root|child)|whsec|refresh|code|verify)_[\w-]{20,}|(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w-]*/g

/** An input without what must not be repeated, or the beginning of its text. */
export function shownInput(value: unknown): unknown {
  if (typeof value === 'string') return shortened(withoutSecrets(value))
  if (typeof value !== 'object' || value === null) return value
  const text = begin(value, '')
  return text.length > SHOWN_MAX ? shortened(text) : JSON.parse(text)
}

const shortened = (text: string): string => (text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX - 1)}\u2026` : text)

const withoutSecrets = (text: string): string => text.slice(0, READ_MAX).replace(SECRETS, '[cut]')

/** Adds a value's JSON to a text, or as much of it as is read; what is nested deeper than that is never entered. */
function begin(value: unknown, before: string): string {
  if (before.length > READ_MAX) return before
  if (typeof value === 'string') return before + JSON.stringify(withoutSecrets(value))
  if (typeof value !== 'object' || value === null) return before + JSON.stringify(value ?? null)
  const isList = Array.isArray(value)
  let text = before + (isList ? '[' : '{')
  let comma = ''
  for (const name in value) {
    if (text.length > READ_MAX) return text
    text += isList ? comma : `${comma}${JSON.stringify(withoutSecrets(name))}:`
    text = begin((value as Record<string, unknown>)[name], text)
    comma = ','
  }
  return text + (isList ? ']' : '}')
}
