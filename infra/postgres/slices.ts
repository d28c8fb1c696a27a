import type { QueryResultRow } from 'pg'
import type { Query } from './pool.ts'

/** Rows of some hundred bytes, whose JSON takes the event loop some milliseconds. */
const ROWS = 500

/**
 * The rows of a SELECT that ends in a condition, by ascending id and some at a time. No connection is held between slices, so a slow
 * reader holds up nobody, and each slice is as of its own moment.
 */
export async function* slicesById<T extends QueryResultRow & { id: string }>(
  query: Query,
  select: string,
  { values = [], rows = ROWS }: { values?: readonly unknown[]; rows?: number },
): AsyncGenerator<T[], void> {
  for (let after: string | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
    const beyond = after === undefined ? '' : `AND id > $${values.length + 1}`
    const slice: T[] = await query<T>(
      `${select} ${beyond} ORDER BY id LIMIT ${rows}`,
      after === undefined ? values : [...values, after],
    )
    if (slice.length > 0) yield slice
    after = slice.length === rows ? slice.at(-1)?.id : undefined
  }
}
