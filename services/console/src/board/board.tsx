/** All items, as the feed has them: rows are virtual, and only those in view come from the worker. */
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, lazy, Suspense, useDeferredValue, useEffect, useRef, useState } from 'react'
import { PHASES } from '#schemas/values/phase.ts'
import { Empty, Loading, Problem } from '../design/states.tsx'
import type { BoardQuery, SortColumn } from '../market/board-store.ts'
import { WEARS } from '../market/search.ts'
import { useCurrency } from '../session/currency.tsx'
import { useLink, useMarket, useProviderName } from '../session/market-context.tsx'
import { formatCount } from '../values/amounts.ts'
import { permits } from '../values/tiers.ts'
import { BoardLine } from './board-line.tsx'
import { type BoardSearch, queryOf } from './board-search.ts'

const ROW_PX = 36
const OVERSCAN = 8
/** Laying out a whole screen of new rows takes a slow processor longer than a task may. */
const FIRST_ROWS = 12

/** Of tiers that have not all items. */
const CatalogSearch = lazy(() =>
  import('./catalog-search.tsx').then(({ CatalogSearch: component }) => ({ default: component })),
)

export function Board() {
  const search: BoardSearch = useSearch({ from: '/' })
  const market = useMarket()
  const { status, problem, tier, items } = useLink(({ state }) => state)
  // Not before the tier is known: a search of the catalog costs a request.
  const isPart = tier !== null && !permits(tier, 'listMarketItems')
  return (
    <>
      <h1 className="unseen">Board</h1>
      <Controls search={search} />
      {isPart && (
        <p className="notice">
          The tier {tier} shows one page of asks, {formatCount(items)} items; a search asks the whole catalog. All items
          with their changes, volume and liquidity begin with the tier pro, live ones with quant.
        </p>
      )}
      {problem !== null &&
        (status === 'failed' ? (
          <Problem error={problem} retry={market.refresh} />
        ) : (
          <p className="notice">Changes, volume and liquidity may lack for now: {problem}</p>
        ))}
      {isPart && search.q ? (
        // Of its own, so that the field that is typed into stays.
        <Suspense fallback={<Loading of="items" />}>
          <CatalogSearch text={search.q} />
        </Suspense>
      ) : (
        <Rows query={queryOf(search)} />
      )}
    </>
  )
}

function Controls({ search }: { search: BoardSearch }) {
  const navigate = useNavigate({ from: '/' })
  const kinds = useLink(({ names }) => names.kinds)
  const set = (change: BoardSearch): void =>
    void navigate({ search: before => ({ ...before, ...change }), replace: true })
  const choices = [
    ['kind', 'Class', kinds],
    ['wear', 'Wear', WEARS],
    ['phase', 'Phase', PHASES],
  ] as const
  return (
    <search className="controls">
      <input
        id="search"
        className="search"
        type="search"
        aria-label="Search items"
        placeholder="Search: name, class, wear, phase   ( / )"
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        value={search.q ?? ''}
        onChange={({ target }) => set({ q: target.value || undefined })}
      />
      {choices.map(([name, label, values]) => (
        <select
          key={name}
          aria-label={label}
          value={search[name] ?? ''}
          onChange={({ target }) => set({ [name]: target.value || undefined })}
        >
          <option value="">{label}: all</option>
          {[...new Set([...values, ...(search[name] ? [search[name]] : [])])].map(value => (
            <option key={value}>{value}</option>
          ))}
        </select>
      ))}
      <Total />
    </search>
  )
}

function Total() {
  const board = useLink(snapshot => snapshot.board)
  return (
    <span className="quiet" role="status">
      {board !== undefined && board.items > 0 && `${formatCount(board.total)} of ${formatCount(board.items)} items`}
    </span>
  )
}

const COLUMNS: readonly [SortColumn, string, string?][] = [
  ['name', 'Item'],
  ['ask', 'Best ask'],
  ['bid', 'Best bid', 'optional'],
  ['change', '24 h'],
  ['volume', 'Volume', 'optional'],
  ['liquidity', 'Liquidity', 'optional'],
  ['providers', 'Markets', 'optional'],
]

function Rows({ query }: { query: BoardQuery }) {
  const market = useMarket()
  // Rendered in slices, between which the page answers.
  const board = useDeferredValue(
    useLink(snapshot => snapshot.board),
    undefined,
  )
  const currency = useCurrency()
  const nameOf = useProviderName()
  // Never ahead of the rows that it is about.
  const status = useDeferredValue(useLink(({ state }) => state.status))
  const sheet = useRef<HTMLDivElement>(null)
  const total = board?.total ?? 0
  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => sheet.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
  })
  const lines = virtual.getVirtualItems()
  const from = lines[0]?.index ?? 0
  const count = Math.max(lines.length, Math.ceil(window.innerHeight / ROW_PX) + OVERSCAN)
  const queryText = JSON.stringify(query)
  useEffect(() => {
    const show = (): void => market.show(document.hidden ? null : { query: JSON.parse(queryText), from, count })
    show()
    document.addEventListener('visibilitychange', show)
    return () => document.removeEventListener('visibilitychange', show)
  }, [market, queryText, from, count])
  useEffect(() => () => market.show(null), [market])
  // biome-ignore lint/correctness/useExhaustiveDependencies: another query begins at its first row
  useEffect(() => {
    if (sheet.current) sheet.current.scrollTop = 0
  }, [queryText])

  const made = useGrowing(FIRST_ROWS, board === undefined ? 0 : lines.length)
  const below = virtual.getTotalSize() - (lines.at(-1)?.end ?? 0)
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys
    <section className="sheet board" ref={sheet} tabIndex={0} aria-label="Items" onKeyDown={moveRow}>
      <table aria-rowcount={total + 1}>
        <Head query={query} />
        <tbody>
          <Spacer height={lines[0]?.start ?? 0} />
          {lines.map(({ index }, at) => {
            const row = at < made ? board?.rows[index - board.from] : undefined
            return row ? (
              <BoardLine key={row.id} {...{ row, index, currency, nameOf }} />
            ) : (
              <Spacer key={-index - 1} height={ROW_PX} />
            )
          })}
          <Spacer height={below} />
        </tbody>
      </table>
      {board === undefined && status !== 'failed' && <Loading of="the market" />}
      {board?.total === 0 && status !== 'loading' && (
        <Empty>
          <p>No item meets this search.</p>
          <p>
            <Link to="/">Show all items</Link>
          </p>
        </Empty>
      )}
    </section>
  )
}

/** Grows by a step a frame up to a limit, and stays. */
function useGrowing(step: number, limit: number): number {
  const [size, setSize] = useState(step)
  useEffect(() => {
    if (size >= limit) return
    const frame = requestAnimationFrame(() => setSize(size + step))
    return () => cancelAnimationFrame(frame)
  }, [size, step, limit])
  return size
}

function Head({ query }: { query: BoardQuery }) {
  const navigate = useNavigate({ from: '/' })
  const sortBy = (column: SortColumn): void => {
    const isDescending = query.sort === column ? !query.isDescending : column !== 'name'
    void navigate({ search: before => ({ ...before, sort: column, way: isDescending ? 'down' : 'up' }), replace: true })
  }
  return (
    <thead>
      <tr aria-rowindex={1}>
        {COLUMNS.map(([column, text, className = '']) => (
          <th
            key={column}
            scope="col"
            className={`${column === 'name' ? '' : 'number'} ${className}`}
            aria-sort={query.sort !== column ? undefined : query.isDescending ? 'descending' : 'ascending'}
          >
            <button type="button" className="plain" onClick={() => sortBy(column)}>
              {text}
              {query.sort === column && <span aria-hidden="true">{query.isDescending ? ' ↓' : ' ↑'}</span>}
            </button>
          </th>
        ))}
      </tr>
    </thead>
  )
}

/** Columns that narrow screens show too: a cell across more would make the others again. */
const LEAST_COLUMNS = 3

/** Stands for the rows out of view. */
const Spacer = ({ height }: { height: number }) =>
  height > 0 && (
    <tr className="spacer">
      <td colSpan={LEAST_COLUMNS} style={{ height }} />
    </tr>
  )

/** Arrows move from row to row; a row's link opens it. */
function moveRow(event: KeyboardEvent<HTMLElement>): void {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>('tbody a')]
  const at = links.indexOf(document.activeElement as HTMLElement)
  const next = links[at + (event.key === 'ArrowDown' ? 1 : -1)]
  if (at < 0 && event.target !== event.currentTarget) return
  event.preventDefault()
  const target = at < 0 ? links[0] : next
  target?.focus()
  target?.scrollIntoView({ block: 'nearest' })
}
