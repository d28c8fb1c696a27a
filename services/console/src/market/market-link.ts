/**
 * A page's link to the worker, which has the market: what it sends last is kept here and read by components.
 *
 * The key is kept in the storage of the tab's session alone. It comes from a form, from another tab by the worker, or from the fragment of a
 * link (`#key=…`), which is removed from the address before anything is asked.
 */
import { Marketlog } from '#services/clients/typescript/src/marketlog.ts'
import type { Quote } from './ask-table.ts'
import type { BoardRow } from './board-store.ts'
import {
  type BoardView,
  type FromWorker,
  type MarketNames,
  type MarketState,
  NO_NAMES,
  STARTING,
  type ToWorker,
  type Usage,
} from './messages.ts'
import { countingFetch } from './usage.ts'

const STORED = 'marketlog-key'

/** Locks are there on https and on this machine alone; without one a shared worker cannot tell that a tab is gone. */
const IS_SHARED = 'SharedWorker' in globalThis && 'locks' in navigator

interface BoardWindow {
  total: number
  /** Of the whole market, where `total` meet the search. */
  items: number
  from: number
  rows: readonly BoardRow[]
}

/** The last message of the worker. */
export interface LinkSnapshot {
  /** Undefined until the worker has said whether another tab has one. */
  key: string | null | undefined
  state: MarketState
  names: MarketNames
  usage: Usage | undefined
  board: BoardWindow | undefined
  asks: { itemId: number; asks: readonly Quote[] } | undefined
}

export type MarketLink = ReturnType<typeof openMarketLink>

export function openMarketLink(baseUrl: string) {
  const port = openPort()
  const readers = new Set<() => void>()
  let snapshot: LinkSnapshot = {
    key: takeKey() ?? undefined,
    state: STARTING,
    names: NO_NAMES,
    usage: undefined,
    board: undefined,
    asks: undefined,
  }
  const set = (change: Partial<LinkSnapshot>): void => {
    snapshot = { ...snapshot, ...change }
    for (const read of readers) read()
  }
  const send = (message: ToWorker): void => port.postMessage(message)
  const clientOf = (key: string): Marketlog =>
    new Marketlog({ baseUrl, key, retries: 1, fetch: countingFetch(usage => set({ usage })) })
  let client: Marketlog | undefined
  const setKey = (key: string | null): void => {
    client = key === null ? undefined : clientOf(key)
    if (key === null) sessionStorage.removeItem(STORED)
    else sessionStorage.setItem(STORED, key)
    set({ key, state: STARTING, names: NO_NAMES, usage: undefined, board: undefined, asks: undefined })
  }
  port.onmessage = ({ data }) => {
    if (data.type === 'key') setKey(data.key)
    else if (data.type === 'state') {
      // A key that the platform does not know is not kept.
      if (data.state.status === 'refused') setKey(null)
      set({ state: data.state })
    } else if (data.type === 'names') set({ names: data.names })
    else if (data.type === 'usage') set({ usage: data.usage })
    else if (data.type === 'window') set({ board: data })
    else set({ asks: data })
  }
  const lock = IS_SHARED ? `marketlog-page-${crypto.randomUUID()}` : null
  const hello = (key: string | null): void => send({ type: 'hello', baseUrl, key, lock })
  if (snapshot.key) setKey(snapshot.key)
  const open = (): Promise<never> => {
    hello(snapshot.key ?? null)
    return new Promise(() => undefined)
  }
  void (lock === null ? open() : navigator.locks.request(lock, open))
  return {
    subscribe(read: () => void): () => void {
      readers.add(read)
      return () => void readers.delete(read)
    },
    snapshot: () => snapshot,
    /** Of the key; throws where there is none: pages are shown to a key alone. */
    client(): Marketlog {
      if (!client) throw new Error('there is no key')
      return client
    },
    enter(key: string): void {
      setKey(key)
      hello(key)
    },
    /** In this tab and all others. */
    forget(): void {
      send({ type: 'forget' })
      setKey(null)
    },
    show: (view: BoardView | null): void => send({ type: 'view', view }),
    follow: (itemId: number | null): void => send({ type: 'item', itemId }),
    refresh: (): void => send({ type: 'refresh' }),
  }
}

/** Of a link or of the session; a key in the address is not left there. */
function takeKey(): string | null {
  const linked = new URLSearchParams(location.hash.slice(1)).get('key')
  if (linked !== null) history.replaceState(history.state, '', location.pathname + location.search)
  return linked ?? sessionStorage.getItem(STORED)
}

interface PagePort {
  postMessage(message: ToWorker): void
  onmessage: ((event: MessageEvent<FromWorker>) => void) | null
}

function openPort(): PagePort {
  if (IS_SHARED)
    return new SharedWorker(new URL('./market-worker.ts', import.meta.url), { type: 'module', name: 'market' }).port
  return new Worker(new URL('./market-worker.ts', import.meta.url), { type: 'module', name: 'market' })
}
