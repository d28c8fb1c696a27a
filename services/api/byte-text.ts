/**
 * Makes bytes of a long text as it grows, for answers of hundreds of kilobytes.
 *
 * A text of thousands of pieces is a rope until it is read, and each collection of young objects copies the rope; and one
 * character beyond ASCII makes two bytes of every other. So pieces become bytes every few kilobytes: of 600 kB in 15,000
 * pieces the slowest of a hundred took 2 to 3 ms instead of 8 to 9.
 */

const PIECE_CHARACTERS = 16_384

/** A text in the making. */
export class ByteText {
  readonly #pieces: Buffer[] = []
  #text = ''

  /** Adds a text whose every character is a byte of its UTF-8: ASCII, or what {@link utf8AsLatin1} gives. */
  add(text: string): void {
    this.#text += text
    if (this.#text.length >= PIECE_CHARACTERS) this.#cut()
  }

  /** All that was added. */
  bytes(): Buffer {
    this.#cut()
    return Buffer.concat(this.#pieces)
  }

  #cut(): void {
    this.#pieces.push(Buffer.from(this.#text, 'latin1'))
    this.#text = ''
  }
}

/** The UTF-8 of a text, a character per byte. */
export const utf8AsLatin1 = (text: string): string => Buffer.from(text).toString('latin1')
