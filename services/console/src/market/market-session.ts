/**
 * The market by one key: what its tier may read, kept in a board store.
 *
 * Runs in the worker, once for all tabs of a key. States: loading → live ⇄ interrupted (tiers with a feed), loading → snapshot (others),
 * and refused or failed from any; a key that is refused reads nothing more. What a session costs its key: the providers, one page or one
 * snapshot of asks, the catalog once a day, and where the tier has them the figures of all items, every two minutes as they are computed.
 */
import { Marketlog, MarketlogError, type ProvidersReply } from '#services/clients/typescript/src/marketlog.ts'
import { hundredthsOf } from '../values/amounts.ts'
import { permits, type Tier } from '../values/tiers.ts'
import { type BoardStore, openBoardStore } from './board-store.ts'
import { readKinds } from './item-kinds.ts'
import { type MarketNames, type MarketState, NO_NAMES, STARTING, type Usage } from './messages.ts'
import { countingFetch } from './usage.ts'

export type MarketSession = ReturnType<typeof openMarketSession>

/** A reader that fills the store, and reports. */
interface Reading {
  client: Marketlog
  signal: AbortSignal
  set(change: Partial<MarketState>): void
  setNames(change: Partial<MarketNames>): void
  onChange(): void
  /** So many asks have changed. */
  count(changes: number): void
}

const FIGURES_EVERY_MS = 120_000
const SECOND_MS = 1_000

/** `onChange` is called with each change of the state, the usage, the names or the rows. */
export function openMarketSession({ baseUrl, key }: { baseUrl: string; key: string }, onChange: () => void) {
  const ending = new AbortController()
  const { signal } = ending
  let usage: Usage | undefined
  let store: BoardStore | undefined
  let state = STARTING
  let names = NO_NAMES
  let changes = 0
  const set = (change: Partial<MarketState>): void => {
    if (signal.aborted) return
    state = { ...state, items: store?.size() ?? 0, ...change }
    onChange()
  }
  const setNames = (change: Partial<MarketNames>): void => {
    names = { ...names, ...change }
    onChange()
  }
  const countUse = countingFetch(one => {
    usage = one
    set({ tier: one.tier })
  })
  const reading: Reading = {
    onChange,
    signal,
    set,
    setNames,
    client: new Marketlog({ baseUrl, key, fetch: countUse }),
    count: more => {
      changes += more
    },
  }
  const counting = setInterval(() => {
    const changesPerSecond = changes
    changes = 0
    if (state.items !== (store?.size() ?? 0) || state.changesPerSecond !== changesPerSecond) set({ changesPerSecond })
  }, SECOND_MS)
  signal.addEventListener('abort', () => clearInterval(counting))

  const run = async (): Promise<void> => {
    const providers = await reading.client.listProviders({}, { signal })
    const terms = termsOf(providers)
    const into = openBoardStore(Object.keys(terms))
    store = into
    setNames({ providers: terms })
    const tier = usage?.tier ?? 'free'
    if (permits(tier, 'listMarketItems')) keepFigures(reading, into)
    if (permits(tier, 'streamPriceChanges')) await follow(reading, into)
    else await readAsks(reading, into, tier)
  }
  void run().catch(error => set(failureOf(error)))
  return {
    baseUrl,
    key,
    /** Undefined until the providers are known. */
    store: () => store,
    state: () => state,
    names: () => names,
    usage: () => usage,
    /** Reads again what no feed changes. */
    refresh(): void {
      if (state.status === 'snapshot' && store && state.tier)
        void readAsks(reading, store, state.tier).catch(error => set(failureOf(error)))
    },
    end: (): void => ending.abort(new Error('the session has ended')),
  }
}

/** DECISIONS.md, "Arbitrage", says which fee is whose; one that is null is none. */
const termsOf = (providers: ProvidersReply): MarketNames['providers'] =>
  Object.fromEntries(
    Object.entries(providers).flatMap(([name, provider]) => {
      if (!provider) return []
      const { key, features, fees } = provider
      const [buyFee, sellFee] = [fees.trading_spread_fee ?? 0, fees.insta_sell_fee ?? fees.sell_fee ?? 0]
      return [[key, { name, hasBids: features.has_buy_orders, buyFee, sellFee }]]
    }),
  )

const sentenceOf = (error: unknown): string =>
  error instanceof MarketlogError && typeof error.detail === 'string' ? error.detail : String(error)

function failureOf(error: unknown): Pick<MarketState, 'status' | 'problem'> {
  const isRefused = error instanceof MarketlogError && (error.status === 401 || error.code === 'AUTH_ACCOUNT_DISABLED')
  return { status: isRefused ? 'refused' : 'failed', problem: sentenceOf(error) }
}

async function follow({ client, signal, set, count, onChange }: Reading, store: BoardStore): Promise<void> {
  let isLoading = true
  let isLive = false
  const onBreak = (): void => {
    isLive = false
    set({ status: 'interrupted' })
  }
  for await (const event of client.feed.prices({ snapshot: true }, { signal, onBreak })) {
    if (event.type === 'resync' || (event.type === 'ready' && isLoading)) {
      isLoading = true
      store.beginState()
    } else if (event.type === 'snapshot.end') {
      isLoading = false
      store.endState()
    } else if (event.type === 'prices.changed') {
      const { provider, seen_at, items } = event.data
      const seenAt = Date.parse(seen_at)
      for (const { item_id, market_hash_name, phase, price, qty } of items) {
        store.setAsk({ itemId: item_id, name: market_hash_name, phase, provider, price, quantity: qty, seenAt })
      }
      if (!isLoading) count(items.length)
      onChange()
    }
    if (isLoading || isLive) continue
    isLive = true
    set({ status: 'live', readAt: null, problem: null })
  }
}

async function readAsks({ client, signal, set }: Reading, store: BoardStore, tier: Tier): Promise<void> {
  const quotes = permits(tier, 'streamPrices')
    ? client.snapshot('streamPrices', {}, { signal })
    : (await client.listPrices({}, { signal })).items
  store.beginState()
  for await (const { item_id, market_hash_name, phase, provider, lowest_ask, quantity, timestamp } of quotes) {
    const ask = { provider, price: lowest_ask, quantity, seenAt: Date.parse(timestamp) }
    store.setAsk({ itemId: item_id, name: market_hash_name, phase, ...ask })
  }
  store.endState()
  set({ status: 'snapshot', readAt: Date.now(), problem: null })
}

/** The figures and classes of all items: what the board shows beside the asks, and does without where they fail. */
function keepFigures(reading: Reading, store: BoardStore): void {
  const { client, signal, set, setNames } = reading
  const attempt = (work: Promise<void>): void => void work.catch(error => set({ problem: sentenceOf(error) }))
  const read = (): void => attempt(readFigures(reading, store))
  const timer = setInterval(read, FIGURES_EVERY_MS)
  signal.addEventListener('abort', () => clearInterval(timer))
  read()
  attempt(
    readKinds(client, signal).then(items => {
      for (const { id, name, phase, kind } of items) store.addItem(id, name, phase, kind)
      setNames({ kinds: store.kinds() })
    }),
  )
}

async function readFigures({ client, signal, set }: Reading, store: BoardStore): Promise<void> {
  const { data } = await client.listMarketItems({}, { signal })
  const amountOf = (dollars: string | null): number | null => (dollars === null ? null : hundredthsOf(dollars))
  for (const { item_id, market_hash_name, phase, summary } of data.items)
    store.setFigures(item_id, market_hash_name, phase, {
      ask: amountOf(summary.best_ask_usd),
      bid: amountOf(summary.best_bid_usd),
      change: summary.price_rate_24h,
      volume: summary.total_volume_24h,
      liquidity: summary.liquidity,
      providers: summary.provider_count,
    })
  set({ problem: null })
}
