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

interface CursorPosition {
  /** The window of the first page. */
  start: number
  end: number
  /** Sort key of the last record. */
  after: readonly (string | number)[]
}

const TAG_BYTES = 16

/** Opens the cursors of a signing key, which all API processes share. */
export function openCursors(key: string) {
  /** A scope names the route and its filters. */
  const tagOf = (scope: readonly unknown[], payload: Buffer): Buffer =>
    createHmac('sha256', key).update(JSON.stringify(scope)).update('\0').update(payload).digest().subarray(0, TAG_BYTES)
  return {
    write(scope: readonly unknown[], position: CursorPosition): string {
      const payload = Buffer.from(JSON.stringify([position.start, position.end, ...position.after]))
      return Buffer.concat([tagOf(scope, payload), payload]).toString('base64url')
    },
    /** Throws the 422 for a cursor that is not one of this scope. */
    read(scope: readonly unknown[], text: string): CursorPosition {
      const bytes = Buffer.from(text, 'base64url')
      const [tag, payload] = [bytes.subarray(0, TAG_BYTES), bytes.subarray(TAG_BYTES)]
      const isWhole = tag.length === TAG_BYTES && bytes.toString('base64url') === text
      if (!isWhole || !timingSafeEqual(tag, tagOf(scope, payload))) throw badCursor(text)
      const [start, end, ...after] = JSON.parse(payload.toString()) as [number, number, ...(string | number)[]]
      return { start, end, after }
    },
  }
}

/** Where the page of a request begins, undefined for the first one, and the pagination of its answer, by where that ends. */
export function openCursorPage(
  cursors: ReturnType<typeof openCursors>,
  scope: readonly unknown[],
  { cursor, limit }: { cursor?: string | undefined; limit: number },
) {
  const before = cursor === undefined ? undefined : cursors.read(scope, cursor)
  return {
    before,
    paginationOf(hasNext: boolean, end: CursorPosition | undefined) {
      const next_cursor = hasNext && end ? cursors.write(scope, end) : null
      const counted = { limit, offset: 0, total: -1 } as const
      return { ...counted, has_next: hasNext, has_prev: before !== undefined, next_cursor }
    },
  }
}

function badCursor(input: string): HttpError {
  const msg = 'Input should be the next_cursor of a request with the same filters'
  return new HttpError('VALIDATION_ERROR', [{ type: 'value_error', loc: ['query', 'cursor'], msg, input, ctx: {} }])
}
