/** The board's state in its address; what is no value of it is left out. */
import { parsePhase } from '#schemas/values/phase.ts'
import type { BoardQuery, SortColumn } from '../market/board-store.ts'
import { isWear } from '../market/search.ts'

export interface BoardSearch {
  q?: string | undefined
  wear?: string | undefined
  phase?: string | undefined
  kind?: string | undefined
  sort?: SortColumn | undefined
  way?: 'up' | 'down' | undefined
}

const SORT_COLUMNS: readonly SortColumn[] = ['name', 'ask', 'bid', 'change', 'volume', 'liquidity', 'providers']

const QUERY_LENGTH_MAX = 200

export function readBoardSearch(search: Record<string, unknown>): BoardSearch {
  const text = (name: string): string | undefined =>
    typeof search[name] === 'string' && search[name] !== '' ? search[name].slice(0, QUERY_LENGTH_MAX) : undefined
  const [wear, phase] = [text('wear'), text('phase')]
  const sort = SORT_COLUMNS.find(column => column === search.sort)
  return {
    q: text('q'),
    wear: wear !== undefined && isWear(wear) ? wear : undefined,
    phase: phase === undefined ? undefined : parsePhase(phase),
    kind: text('kind'),
    sort,
    way: search.way === 'up' || search.way === 'down' ? search.way : undefined,
  }
}

/** By volume unless said otherwise; names begin with A, values with the largest. */
export function queryOf({ q = '', wear = '', phase = '', kind = '', sort = 'volume', way }: BoardSearch): BoardQuery {
  return { text: q, wear, phase, kind, sort, isDescending: (way ?? (sort === 'name' ? 'up' : 'down')) === 'down' }
}
