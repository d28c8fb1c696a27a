/**
 * A market for fault tests: what several providers list of real items, refresh by refresh, from a seed.
 *
 * Pure but for the recorded refreshes and the catalog that it reads. Names and prices are those of real
 * refreshes; a feed takes over some of a later file's prices with each refresh, lists and withdraws items.
 * Some refreshes go wrong as real ones do: cut, cut and repeated, with an entry lost, failed, stale, collapsed,
 * with glitches, in another currency; some entries are unknown, unpriced, in the wrong currency or there twice.
 * The same seed and files give the same refreshes; times lie ahead of every retention.
 */
import { loadCatalog } from '#infra/config/catalog.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { readRefreshes } from '#test/fixtures/recorded-refreshes.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'

/** One entry of a refresh as its provider lists it. */
export interface ScriptedEntry {
  name: string
  /** Undefined where the catalog has no such item. */
  itemId: number | undefined
  price: number
  quantity: number
  currency: string
  /** Ingest could make nothing of it. */
  isRejected: boolean
}

/** How a refresh ends: completed; completed though an entry was lost; by nothing; by a RefreshFailed. */
export type Ending = 'completed' | 'lossy' | 'cut' | 'failed'

/** A refresh as it will be in the log. */
export interface ScriptedRefresh {
  side: Side
  provider: string
  refreshId: string
  observedAt: number
  /** When it was appended, where its own time lies after that. */
  appendedAt?: number
  currency: string
  usdRate: string
  entries: ScriptedEntry[]
  ending: Ending
  /** Why it failed, where it is not for a timeout. */
  failure?: string
}

/** A provider's asks or bids. */
export interface Feed {
  readonly side: Side
  readonly provider: string
  /** What it may list. */
  readonly items: readonly MarketItem[]
  /** The provider's next refresh. */
  next(): ScriptedRefresh
  /** A refresh without faults, which every book accepts. */
  last(): ScriptedRefresh
  /** Lets its clock jump ahead. */
  skipTo(time: number): void
}

/** How large a market is. */
export interface MarketSize {
  items: number
  /** How many providers, provider_01 the first, or their keys. */
  askProviders: number | readonly string[]
  bidProviders: number | readonly string[]
  /** Time of the first refreshes; some days ago where left out. */
  from?: number
  /** A feed's refreshes lie so many minutes apart at most; 15 where left out. */
  minutesApart?: number
}

/** An item of the market. */
export interface MarketItem {
  name: string
  itemId: number
  /** Its price in each recorded refresh that has it. */
  prices: readonly number[]
}

/** What the views hold at least of a market whose feeds have each published a sound refresh. */
export interface LeastOfMarket {
  feeds: number
  asks: number
  bids: number
  quarantined: number
  unresolved: number
  deadLetters: number
}

/** Half of what feeds may list, when they list nine tenths of it at first; mishaps and oddities as they are planned. */
export function leastOf(feeds: readonly Feed[]): LeastOfMarket {
  const rows = (wanted: Side): number =>
    feeds.reduce((sum, { side, items }) => sum + (side === wanted ? Math.floor(items.length / 2) : 0), 0)
  return {
    ...{ feeds: feeds.length, asks: rows('ask'), bids: rows('bid') },
    ...{ quarantined: 1, unresolved: feeds.length, deadLetters: 3 * feeds.length },
  }
}

interface State {
  readonly side: Side
  readonly provider: string
  readonly factor: number
  readonly minutesApart: number
  readonly listed: Map<number, { price: number; quantity: number }>
  currency: string
  observedAt: number
  refreshes: number
  /** What the next calls give before anything new. */
  planned: ScriptedRefresh[]
  /** Mishaps that the market has yet to meet, whichever feed is next; shared by its feeds. */
  readonly due: Mishap[]
}

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
const MINUTES_APART = 15
/** Far enough back for a thousand refreshes, and yet within what candles of five minutes are kept for. */
export const DAYS_BACK = 6
/** What comes from the future comes from the next decades. */
const YEARS_AHEAD = 20
const RATES: Record<string, string> = { USD: '1', EUR: '0.9213', GBP: '0.7831' }

type Mishap =
  | 'cut'
  | 'repeated'
  | 'lossy'
  | 'failed'
  | 'stale'
  | 'future'
  | 'collapsed'
  | 'glitch'
  | 'empty'
  | 'currency'
const MISHAPS: readonly Mishap[] = [
  ...(['cut', 'cut', 'repeated', 'repeated', 'lossy', 'failed', 'stale', 'future', 'collapsed', 'collapsed'] as const),
  ...(['glitch', 'glitch', 'empty', 'currency'] as const),
]
const MISHAP_CHANCE = 0.3
/** Every market meets one of each, those first that are to be quarantined. */
const DUE: ReadonlySet<Mishap> = new Set(['collapsed', 'glitch', 'empty', ...MISHAPS])

/** Opens the feeds of a market. */
export function openScriptedMarket(random: SeededRandom, size: MarketSize): Feed[] {
  const items = realItems(random, size.items)
  const from = size.from ?? Date.now() - DAYS_BACK * DAY_MS
  const due = [...DUE]
  const feed = (side: Side, provider: string, number: number): Feed => {
    const listed = new Map<number, { price: number; quantity: number }>()
    const state: State = {
      ...{ side, provider, listed, due, planned: [] },
      factor: 0.8 + 0.05 * number,
      minutesApart: size.minutesApart ?? MINUTES_APART,
      currency: random.pick(Object.keys(RATES)),
      observedAt: from + random.integer(0, 59) * MINUTE_MS,
      refreshes: 0,
    }
    for (const at of items.keys()) if (random.chance(0.9)) list(random, state, items, at)
    return {
      ...{ side, provider, items },
      next: () => state.planned.shift() ?? nextRefresh(random, state, items),
      last: () => sound(random, state, items),
      skipTo(time) {
        state.observedAt = Math.max(time, state.observedAt)
      },
    }
  }
  return [
    ...keysOf(size.askProviders).map((key, at) => feed('ask', key, at + 1)),
    ...keysOf(size.bidProviders).map((key, at) => feed('bid', key, at + 1)),
  ]
}

const keysOf = (providers: number | readonly string[]): readonly string[] =>
  typeof providers === 'number'
    ? Array.from({ length: providers }, (_, at) => `provider_${String(at + 1).padStart(2, '0')}`)
    : providers

/** Items of the first recorded refresh with what later ones ask for them. */
function realItems(random: SeededRandom, count: number): MarketItem[] {
  const whole = loadCatalog().filter(({ phase }) => phase === null)
  const ids = new Map(whole.map(item => [item.market_hash_name, item.item_id]))
  const refreshes = readRefreshes().slice(0, 12)
  const names = random.shuffle(Object.keys(refreshes[0]?.prices ?? {}))
  const items: MarketItem[] = []
  for (const name of names) {
    const itemId = ids.get(name)
    if (itemId === undefined) continue
    const prices = refreshes.map(({ prices }) => prices[name]).filter(price => price !== undefined)
    items.push({ name, itemId, prices })
    if (items.length === count) break
  }
  return items
}

function list(random: SeededRandom, state: State, items: readonly MarketItem[], at: number): void {
  const { prices = [100] } = items[at] ?? {}
  const price = Math.max(1, Math.round(random.pick(prices) * state.factor))
  state.listed.set(at, { price, quantity: random.integer(1, 40) })
}

/** Takes over some prices of another recorded refresh, lists some items and withdraws some. */
function trade(random: SeededRandom, state: State, items: readonly MarketItem[]): void {
  for (const at of items.keys()) {
    const chance = random.next()
    const row = state.listed.get(at)
    if (row === undefined) {
      if (chance < 0.15) list(random, state, items, at)
    } else if (chance < 0.015) state.listed.delete(at)
    else if (chance < 0.08) list(random, state, items, at)
    else if (chance < 0.12) row.quantity = random.integer(1, 40)
  }
}

function nextRefresh(random: SeededRandom, state: State, items: readonly MarketItem[]): ScriptedRefresh {
  // The first one is the book that mishaps are judged against.
  if (state.refreshes === 0) return sound(random, state, items)
  const mishap = state.due.shift() ?? (random.chance(MISHAP_CHANCE) ? random.pick(MISHAPS) : undefined)
  switch (mishap) {
    case undefined:
      return sound(random, state, items)
    case 'cut':
      return begunOnly(random, sound(random, state, items), 'cut')
    case 'failed':
      return begunOnly(random, sound(random, state, items), 'failed')
    case 'repeated': {
      const whole = sound(random, state, items)
      state.planned.push(whole)
      return begunOnly(random, whole, 'cut')
    }
    case 'lossy':
      return { ...sound(random, state, items), ending: 'lossy' }
    case 'stale': {
      const { observedAt } = state
      const late = sound(random, state, items)
      state.observedAt = observedAt
      return { ...late, observedAt, refreshId: nameOf(observedAt) }
    }
    case 'future': {
      const { observedAt } = state
      const early = sound(random, state, items)
      state.observedAt = observedAt
      const ahead = early.observedAt + YEARS_AHEAD * 365 * DAY_MS
      return { ...early, observedAt: ahead, refreshId: nameOf(ahead), appendedAt: Date.now() }
    }
    case 'collapsed':
      return twice(
        random,
        state,
        ({ entries }) => ({ entries: entries.filter((_, at) => at === 0 || random.chance(0.1)) }),
        items,
      )
    case 'empty':
      return twice(random, state, () => ({ entries: [] }), items)
    case 'glitch':
      return twice(random, state, ({ entries }) => ({ entries: entries.map(entry => enlarged(random, entry)) }), items)
    case 'currency':
      state.currency = random.pick(Object.keys(RATES))
      return sound(random, state, items)
  }
}

/** A suspect refresh, now and then followed by a second one like it, which is then believed. */
function twice(
  random: SeededRandom,
  state: State,
  change: (refresh: ScriptedRefresh) => Partial<ScriptedRefresh>,
  items: readonly MarketItem[],
): ScriptedRefresh {
  const suspect = () => {
    const whole = sound(random, state, items)
    return { ...whole, ...change(whole) }
  }
  const first = suspect()
  if (random.chance(0.3)) state.planned.push(suspect())
  return first
}

const enlarged = (random: SeededRandom, entry: ScriptedEntry): ScriptedEntry =>
  random.chance(0.75) ? { ...entry, price: entry.price * 100 } : entry

function begunOnly(random: SeededRandom, whole: ScriptedRefresh, ending: 'cut' | 'failed'): ScriptedRefresh {
  return { ...whole, ending, entries: whole.entries.slice(0, random.integer(1, whole.entries.length)) }
}

function sound(random: SeededRandom, state: State, items: readonly MarketItem[]): ScriptedRefresh {
  if (state.refreshes > 0) trade(random, state, items)
  state.refreshes += 1
  state.observedAt += random.integer(1, state.minutesApart) * MINUTE_MS + random.integer(0, 59_999)
  const { side, provider, currency, observedAt } = state
  const rate = RATES[currency] as string
  // Rates move with every refresh, as they do.
  const usdRate = currency === 'USD' ? rate : `${rate}${random.integer(1, 9)}`
  return {
    ...{ side, provider, currency, observedAt, usdRate, refreshId: nameOf(observedAt), ending: 'completed' },
    entries: entriesOf(random, state, items),
  }
}

const nameOf = (observedAt: number): string => new Date(observedAt).toISOString().replace(/[-:.]/g, '')

/** What is wrong with one entry in a thousand each: unknown, unpriced, in another currency, not to be read. */
const ODDITIES: readonly ((entry: ScriptedEntry) => ScriptedEntry)[] = [
  entry => ({ ...entry, name: `${entry.name} (unheard of)`, itemId: undefined }),
  entry => ({ ...entry, price: -entry.price }),
  entry => ({ ...entry, currency: 'ZZZ' }),
  entry => ({ ...entry, isRejected: true }),
]

function entriesOf(random: SeededRandom, state: State, items: readonly MarketItem[]): ScriptedEntry[] {
  const { currency } = state
  const entries: ScriptedEntry[] = []
  for (const at of random.shuffle([...state.listed.keys()])) {
    const { name = '', itemId } = items[at] ?? {}
    const { price = 1, quantity = 1 } = state.listed.get(at) ?? {}
    const entry: ScriptedEntry = { name, itemId, price, quantity, currency, isRejected: false }
    entries.push(entry)
    // A feed's first refresh has one of each oddity. The first entry gives a refresh's currency, so it stays sound.
    if (state.refreshes === 1 && entries.length === 2) entries.push(...ODDITIES.map(odd => odd(entry)))
    const chance = random.next()
    const odd = ODDITIES[Math.floor(chance * 1_000)]
    if (odd) entries.push(odd(entry))
    else if (chance < 0.008) entries.push({ ...entry, price: price + random.integer(0, 2), quantity: 7 })
  }
  return entries
}
