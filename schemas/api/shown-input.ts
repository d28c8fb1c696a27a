/**
 * What a violation may repeat of the input that it reports.
 *
 * Clients log errors and pass them on, so keys, tokens and secrets of this platform are cut out, wherever a client
 * sent them by mistake. Everything else is repeated unchanged, except values nested deeper than a serializer's stack.
 */

const DEPTH_MAX = 64
const TOO_DEEP = '(nested too deeply to be shown)'
/** Each run of letters is scanned once, so that no text takes long. */
const SECRETS = /(sk_live_(root|child)|whsec|refresh|code|verify)_[\w-]{20,}|(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w-]*/g

/** An input without what must not be repeated. */
export function shownInput(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return value.replace(SECRETS, '[cut]')
  if (typeof value !== 'object' || value === null) return value
  if (depth >= DEPTH_MAX) return TOO_DEEP
  if (Array.isArray(value)) return value.map(one => shownInput(one, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shownInput(one, depth + 1)]))
}
