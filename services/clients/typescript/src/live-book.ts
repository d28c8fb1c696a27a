/**
 * The asks of some items, or of all, as they are now.
 *
 * Filled by a state, then changed by its feed. A state that the feed begins again is collected aside and replaces the rows when
 * it is complete, with its differences as changes. Invariant: `rows` is always a whole state that the platform had.
 */
import type { FeedEvent, FeedOptions, FeedParameters } from './feed.ts'
import type { FeedChanged, FeedItem } from './generated.ts'

/** An ask, or what an item's ask at a provider has become; `price` is null where it is listed no more. */
export type Ask = FeedItem & Pick<FeedChanged, 'provider' | 'seen_at'>

export interface LiveBook {
  /** The asks of an item by its id, of all phases of a name, or of all items; lowest first. */
  asks(item?: number | string): Ask[]
  /** The lowest of them. */
  best(item: number | string): Ask | undefined
  /** The changes from this call on; a slow reader gets the latest of each row. Several may read. */
  changes(): AsyncGenerator<Ask, void, void>
  close(): Promise<void>
}

/** Which providers and items; all where they are left out. */
export type LiveBookParameters = Omit<FeedParameters<'streamPriceChanges'>, 'snapshot' | 'last_event_id'>

/** By item id and provider. */
type Rows = Map<number, Map<string, Ask>>

type Event = FeedEvent<'streamPriceChanges'>

/** Resolves when the first state is complete; rejects with the error of the feed, which later `asks` and `changes` throw too. */
export async function openLiveBook(
  feed: (parameters: FeedParameters<'streamPriceChanges'>, options: FeedOptions) => AsyncIterable<Event>,
  parameters: LiveBookParameters,
  options: FeedOptions = {},
): Promise<LiveBook> {
  const ending = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal
  const readers = openReaders()
  const idsOfNames = new Map<string, Set<number>>()
  let rows: Rows = new Map()
  /** The state that is not complete yet. */
  let loading: Rows | undefined = new Map()
  let failure: { error: unknown } | undefined

  const apply = (event: Event): void => {
    if (event.type === 'resync' || (event.type === 'ready' && loading)) loading = new Map()
    else if (event.type === 'prices.changed') {
      const { provider, seen_at, items } = event.data
      for (const item of items) {
        const ask = { ...item, provider, seen_at }
        idsOfNames.set(item.market_hash_name, (idsOfNames.get(item.market_hash_name) ?? new Set()).add(item.item_id))
        setRow(loading ?? rows, ask)
        if (!loading) readers.add(ask)
      }
    } else if (event.type === 'snapshot.end' && loading) {
      for (const ask of differences(rows, loading)) readers.add(ask)
      rows = loading
      loading = undefined
    }
  }
  let running: Promise<void> | undefined
  await new Promise<void>((resolve, reject) => {
    const run = async (): Promise<void> => {
      for await (const event of feed({ ...parameters, snapshot: true }, { ...options, signal })) {
        apply(event)
        if (!loading) resolve()
      }
    }
    running = run().catch(error => {
      if (!ending.signal.aborted) failure = { error }
      readers.end()
      reject(error)
    })
  })

  const asks: LiveBook['asks'] = item => {
    if (failure) throw failure.error
    const ids = item === undefined ? rows.keys() : typeof item === 'number' ? [item] : (idsOfNames.get(item) ?? [])
    return [...ids].flatMap(id => [...(rows.get(id)?.values() ?? [])]).sort(byPrice)
  }
  return {
    asks,
    best: item => asks(item)[0],
    changes: () => readers.open(() => failure),
    async close() {
      ending.abort()
      await running
    },
  }
}

const byPrice = (a: Ask, b: Ask): number => (a.price ?? 0) - (b.price ?? 0) || (a.provider < b.provider ? -1 : 1)

function setRow(rows: Rows, ask: Ask): void {
  const { item_id, provider } = ask
  const ofItem = rows.get(item_id) ?? new Map<string, Ask>()
  if (ask.change === 'removed') ofItem.delete(provider)
  else ofItem.set(provider, ask)
  if (ofItem.size === 0) rows.delete(item_id)
  else rows.set(item_id, ofItem)
}

/** The changes that lead from one state to another. */
function* differences(from: Rows, to: Rows): Generator<Ask> {
  for (const [id, asks] of from)
    for (const [provider, ask] of asks)
      if (!to.get(id)?.has(provider)) yield { ...ask, price: null, qty: 0, change: 'removed' }
  for (const [id, asks] of to)
    for (const [provider, ask] of asks) {
      const before = from.get(id)?.get(provider)
      if (!before) yield ask
      else if (before.price !== ask.price || before.qty !== ask.qty) yield { ...ask, change: 'updated' }
    }
}

interface Reader {
  waiting: Map<string, Ask>
  wake(): void
}

/** Readers of changes, each with the latest of the rows that it has not read. */
function openReaders() {
  const readers = new Set<Reader>()
  let isOver = false

  async function* read(reader: Reader, failed: () => { error: unknown } | undefined): AsyncGenerator<Ask, void, void> {
    try {
      for (;;) {
        for (const [key, ask] of reader.waiting) {
          reader.waiting.delete(key)
          yield ask
        }
        const failure = failed()
        if (failure) throw failure.error
        if (isOver) return
        await new Promise<void>(resolve => {
          reader.wake = resolve
        })
      }
    } finally {
      readers.delete(reader)
    }
  }
  return {
    add(ask: Ask): void {
      const key = `${ask.item_id} ${ask.provider}`
      for (const { waiting, wake } of readers) {
        waiting.delete(key)
        waiting.set(key, ask)
        wake()
      }
    },
    end(): void {
      isOver = true
      for (const { wake } of readers) wake()
    },
    open(failed: () => { error: unknown } | undefined): AsyncGenerator<Ask, void, void> {
      const reader: Reader = { waiting: new Map(), wake: () => {} }
      readers.add(reader)
      return read(reader, failed)
    },
  }
}
