/**
 * Paging cursors: opaque to clients, signed, bound to the request that they continue.
 *
 * Pure but for the key. A cursor holds the sort key of the last record of a page and the window that
 * the first page had, so new records never shift the pages that follow. Invariant: a cursor that was changed, or
 * is sent with other filters, is a 422. A 128-bit tag is enough: a forged cursor would show nothing that
 * the same key may not ask for.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { HttpError } from '#infra/http/http-error.ts'

/** Where a page ended. */
interface CursorPosition {
  /** The window of the first page. */
  start: number
  end: number
  /** Sort key of the last record. */
  after: readonly (string | number)[]
}

export interface Cursors {
  /** `scope` names the route and its filters. */
  write(scope: readonly unknown[], position: CursorPosition): string
  /** Throws the 422 for a cursor that is not one of this scope. */
  read(scope: readonly unknown[], text: string): CursorPosition
}

const TAG_BYTES = 16

/** Opens the cursors of a signing key, which all API processes share. */
export function openCursors(key: string): Cursors {
  const tagOf = (scope: readonly unknown[], payload: Buffer): Buffer =>
    createHmac('sha256', key).update(JSON.stringify(scope)).update('\0').update(payload).digest().subarray(0, TAG_BYTES)
  return {
    write(scope, position) {
      const payload = Buffer.from(JSON.stringify([position.start, position.end, ...position.after]))
      return Buffer.concat([tagOf(scope, payload), payload]).toString('base64url')
    },
    read(scope, text) {
      const bytes = Buffer.from(text, 'base64url')
      const [tag, payload] = [bytes.subarray(0, TAG_BYTES), bytes.subarray(TAG_BYTES)]
      const isWhole = tag.length === TAG_BYTES && bytes.toString('base64url') === text
      if (!isWhole || !timingSafeEqual(tag, tagOf(scope, payload))) throw badCursor(text)
      const [start, end, ...after] = JSON.parse(payload.toString()) as [number, number, ...(string | number)[]]
      return { start, end, after }
    },
  }
}

/** The pagination of a reply to a request that may be continued by a cursor; `next` is null on the last page. */
export const cursorPage = (
  limit: number,
  { hasNext, hasPrev, next }: { hasNext: boolean; hasPrev: boolean; next: string | null },
) => ({ limit, offset: 0, total: -1, has_next: hasNext, has_prev: hasPrev, next_cursor: next }) as const

function badCursor(input: string): HttpError {
  const msg = 'Input should be the next_cursor of a request with the same filters'
  return new HttpError('VALIDATION_ERROR', [{ type: 'value_error', loc: ['query', 'cursor'], msg, input, ctx: {} }])
}
