/**
 * The version of a stored value's form: the member `format` of the text that readers open first; one without it is of version 1.
 *
 * Readers keep a decoder for the version before their own. Invariant: a version without a decoder is an {@link UnknownFormat} and
 * never a guess: what cannot be read is unavailable, not empty.
 */

/** A stored text is in a form that this version does not know. */
export class UnknownFormat extends Error {}

/** Version → what makes the present shape of what was stored in it. */
// biome-ignore lint/suspicious/noExplicitAny: the version decides the shape.
type Decoders<T> = Readonly<Record<number, (stored: any) => T>>

/** Reads a stored JSON object; `what` names it in the error. Throws {@link UnknownFormat}. */
export function parseStored<T>(what: string, text: string, decoders: Decoders<T>): T {
  const stored = JSON.parse(text) as { format?: unknown }
  const format = formatOf(stored)
  const decode = decoders[format]
  if (decode !== undefined) return decode(stored)
  const versions = Object.keys(decoders).join(', ')
  throw new UnknownFormat(
    `${what} is stored in version ${format} of its form, and this process reads ${versions}: upgrade the processes that read it first`,
  )
}

/** The version of a stored object's form; NaN for one that is none. */
export const formatOf = ({ format = 1 }: { format?: unknown }): number => Number(format)
