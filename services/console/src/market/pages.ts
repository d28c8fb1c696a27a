/**
 * The pages that a worker serves: each gets the state of its key's session and the window of the board that it shows, at most ten times a second.
 *
 * A page lives as long as it holds its lock; the last one of a key ends its session. Orders are kept while neither items nor query change; those
 * by a value that moves are made again once a second.
 */
import type { BoardQuery, BoardStore } from './board-store.ts'
import { type MarketSession, openMarketSession } from './market-session.ts'
import type { BoardView, FeedStatus, FromWorker, ToWorker } from './messages.ts'

const WINDOW_EVERY_MS = 100
const ORDER_EVERY_MS = 1_000

interface Order {
  rows: number[]
  of: string
  items: number
  values: number
  madeAt: number
}

interface Page {
  send(message: FromWorker): void
  session: MarketSession | undefined
  view: BoardView | null
  itemId: number | null
  order: Order | undefined
  /** The last that was sent, so that nothing is sent twice. */
  sent: { window: string; asks?: string; state?: unknown; usage?: unknown; names?: unknown }
}

/** The channel to a page: a port of a shared worker, or the worker itself. */
export interface Port {
  postMessage(message: FromWorker): void
  onmessage: ((event: { data: ToWorker }) => void) | null
}

export function openPages() {
  const pages = new Set<Page>()
  const sessions = new Map<string, MarketSession>()
  let timer: ReturnType<typeof setTimeout> | undefined

  const schedule = (): void => {
    if (timer !== undefined) return
    timer = setTimeout(() => {
      timer = undefined
      let isWaiting = false
      for (const page of pages) isWaiting = sendNews(page) || isWaiting
      if (isWaiting) schedule()
    }, WINDOW_EVERY_MS)
  }
  const open = (baseUrl: string, key: string): MarketSession => {
    const session = openMarketSession({ baseUrl, key }, schedule)
    sessions.set(key, session)
    return session
  }
  const end = (session: MarketSession): void => {
    session.end()
    if (sessions.get(session.key) === session) sessions.delete(session.key)
  }
  const leave = (page: Page): void => {
    pages.delete(page)
    const { session } = page
    if (session && ![...pages].some(other => other.session === session)) end(session)
  }
  const greet = (page: Page, { baseUrl, key, lock }: Extract<ToWorker, { type: 'hello' }>): void => {
    // A key that was refused may be entered again.
    for (const session of sessions.values()) if (session.state().status === 'refused') end(session)
    const shared = key ?? sessions.keys().next().value ?? null
    // Granted once the page is gone, however it went.
    if (lock !== null) void navigator.locks.request(lock, () => leave(page))
    if (key === null) page.send({ type: 'key', key: shared })
    if (shared === null) return
    page.session = sessions.get(shared) ?? open(baseUrl, shared)
    page.sent = { window: '' }
    schedule()
  }
  /** Reads again, from the start where it has failed. */
  const refresh = (session: MarketSession): void => {
    session.refresh()
    if (session.state().status !== 'failed') return
    end(session)
    const again = open(session.baseUrl, session.key)
    for (const page of pages)
      if (page.session === session) Object.assign(page, { session: again, sent: { window: '' } })
  }
  const forget = (session: MarketSession): void => {
    end(session)
    for (const page of pages)
      if (page.session === session) {
        page.session = undefined
        page.send({ type: 'key', key: null })
      }
  }
  return {
    add(port: Port): void {
      const page: Page = {
        send: message => port.postMessage(message),
        session: undefined,
        view: null,
        itemId: null,
        order: undefined,
        sent: { window: '' },
      }
      pages.add(page)
      port.onmessage = ({ data }) => {
        if (data.type === 'hello') greet(page, data)
        else if (data.type === 'forget') page.session && forget(page.session)
        else if (data.type === 'refresh') page.session && refresh(page.session)
        else if (data.type === 'view') page.view = data.view
        else page.itemId = data.itemId
        Object.assign(page.sent, { window: '', asks: '' })
        schedule()
      }
    },
  }
}

/** Sends what is new; true where an order is to be made again later. */
function sendNews(page: Page): boolean {
  const { session, sent } = page
  if (!session) return false
  const [state, usage, names, store] = [session.state(), session.usage(), session.names(), session.store()]
  if (usage && usage !== sent.usage) page.send({ type: 'usage', usage })
  if (names !== sent.names) page.send({ type: 'names', names })
  const isOld = store !== undefined && sendRows(page, store, state.status)
  // After the rows: who knows that the market is whole may say that a search finds nothing.
  if (state !== sent.state) page.send({ type: 'state', state })
  Object.assign(sent, { state, usage, names })
  return isOld
}

function sendRows(page: Page, store: BoardStore, status: FeedStatus): boolean {
  const { sent, view, itemId } = page
  if (itemId !== null) {
    const asks = store.asksOf(itemId)
    const text = JSON.stringify(asks)
    if (text !== sent.asks) page.send({ type: 'asks', itemId, asks })
    sent.asks = text
  }
  if (!view) return false
  page.order = orderOf(store, status, view.query, page.order)
  const { rows, values } = page.order
  const window = `${rows.length} ${view.from} ${view.count} ${store.versions.values} ${store.versions.items} ${page.order.madeAt}`
  if (window !== sent.window) {
    sent.window = window
    const shown = rows.slice(view.from, view.from + view.count).map(row => store.rowAt(row))
    page.send({ type: 'window', total: rows.length, items: store.size(), from: view.from, rows: shown })
  }
  return isMoving(view.query) && values !== store.versions.values
}

const isMoving = ({ sort }: BoardQuery): boolean => sort !== 'name'

function orderOf(store: BoardStore, status: FeedStatus, query: BoardQuery, known: Order | undefined): Order {
  const { items, values } = store.versions
  // One that was made while the market loaded may lack most of it.
  const of = status + JSON.stringify(query)
  const now = performance.now()
  const isNew = known?.of !== of
  const isOld = known?.items !== items || (isMoving(query) && known.values !== values)
  if (known && !isNew && (!isOld || now - known.madeAt < ORDER_EVERY_MS)) return known
  return { rows: store.order(query), of, items, values, madeAt: now }
}
