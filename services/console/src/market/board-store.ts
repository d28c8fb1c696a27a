/** All items of the market with their best asks: what a search finds, in the order that is asked for. An item is a row by its arrival. */
import { openAskTable, type Quote } from './ask-table.ts'
import { searchable, wearOf, wordsOf } from './search.ts'

export type SortColumn = 'name' | 'ask' | 'bid' | 'change' | 'volume' | 'liquidity' | 'providers'

export interface BoardQuery {
  text: string
  /** Empty: all, as of the next two. */
  wear: string
  phase: string
  kind: string
  sort: SortColumn
  isDescending: boolean
}

/** Computed by the platform of an item. */
interface ItemFigures {
  bid: number | null
  /** Of 24 hours, in percent. */
  change: number | null
  /** Units a day. */
  volume: number | null
  liquidity: number | null
  /** Shown where no asks of the item are at hand; so is the next. */
  ask: number | null
  providers: number
}

export interface BoardRow extends ItemFigures {
  id: number
  name: string
  phase: string | null
  kind: string | null
  askProvider: string | null
  quantity: number
  /** Counts the changes of the best ask, so that a page can tell a new one; `rose` is how the last one went. */
  ticks: number
  rose: boolean
}

export interface AskChange {
  itemId: number
  name: string
  phase: string | null
  provider: string
  /** Hundredths of a dollar; null: listed no more. */
  price: number | null
  quantity: number
  /** Milliseconds since the epoch. */
  seenAt: number
}

export type BoardStore = ReturnType<typeof openBoardStore>

interface Item extends Pick<BoardRow, 'id' | 'name' | 'phase' | 'kind' | 'ticks' | 'rose'> {
  /** Text that a search compares. */
  text: string
  figures: ItemFigures
}

const NO_FIGURES: ItemFigures = { bid: null, change: null, volume: null, liquidity: null, ask: null, providers: 0 }

/** `providers` are the keys of all of them. */
export function openBoardStore(providers: readonly string[]) {
  const asks = openAskTable(providers)
  const rows = new Map<number, number>()
  const items: Item[] = []
  /** Of the items themselves, and of what a page shows of them. */
  const versions = { items: 0, values: 0 }

  const rowOf = (id: number, name: string, phase: string | null): number => {
    const known = rows.get(id)
    if (known !== undefined) return known
    const text = searchable(`${name} ${phase ?? ''}`)
    items.push({ id, name, phase, kind: null, text, figures: NO_FIGURES, ticks: 0, rose: false })
    rows.set(id, items.length - 1)
    versions.items += 1
    return items.length - 1
  }
  const rowAt = (row: number): BoardRow => {
    const { text: _, figures, ...item } = items[row] as Item
    const { price, provider: askProvider, providers: listing, quantity } = asks.best(row)
    const best = listing === 0 ? {} : { ask: price, providers: listing }
    return { ...item, ...figures, ...best, askProvider, quantity }
  }
  return {
    versions: versions as Readonly<typeof versions>,
    size: () => items.length,
    kinds: (): string[] => [...new Set(items.map(({ kind }) => kind))].filter(kind => kind !== null).toSorted(),
    addItem(id: number, name: string, phase: string | null, kind: string | null): void {
      const item = items[rowOf(id, name, phase)] as Item
      if (kind === null || item.kind === kind) return
      item.kind = kind
      item.text = searchable(`${name} ${phase ?? ''} ${kind}`)
      versions.items += 1
    },
    setFigures(id: number, name: string, phase: string | null, figures: ItemFigures): void {
      const item = items[rowOf(id, name, phase)] as Item
      item.figures = figures
      versions.values += 1
    },
    /** A state begins, or begins again: what was known is shown until it ends. */
    beginState: asks.beginState,
    endState(): void {
      asks.endState()
      versions.values += 1
    },
    setAsk({ itemId, name, phase, provider, ...ask }: AskChange): void {
      const row = rowOf(itemId, name, phase)
      const before = asks.best(row).price
      asks.set(row, provider, ask)
      const after = asks.best(row).price
      versions.values += 1
      if (before === after || Number.isNaN(before) || Number.isNaN(after)) return
      const item = items[row] as Item
      item.ticks += 1
      item.rose = after > before
    },
    /** The asks of an item, lowest first. */
    asksOf: (id: number): Quote[] => asks.quotes(rows.get(id) ?? Number.POSITIVE_INFINITY),
    rowAt,
    /** Rows that meet a query, in its order; what has no value comes last, whichever way. */
    order({ text, wear, phase, kind, sort, isDescending }: BoardQuery): number[] {
      const words = wordsOf(text)
      const isFound = (item: Item): boolean =>
        words.every(word => item.text.includes(word)) &&
        (wear === '' || wearOf(item.name) === wear) &&
        (phase === '' || item.phase === phase) &&
        (kind === '' || item.kind === kind)
      const found = items.flatMap((item, row) => (isFound(item) ? [row] : []))
      const way = isDescending ? -1 : 1
      if (sort === 'name')
        return found.sort((a, b) => way * byText((items[a] as Item).name, (items[b] as Item).name) || a - b)
      const keys = new Float64Array(items.length)
      for (const row of found) keys[row] = rowAt(row)[sort] ?? Number.NaN
      return found.sort((a, b) => byNumber(keys[a] as number, keys[b] as number, way) || a - b)
    },
  }
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const byNumber = (a: number, b: number, way: number): number =>
  Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : way * (a - b)
