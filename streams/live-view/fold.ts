/**
 * Folds book changes and refresh markers into what a partition of the live view must write.
 *
 * Of several changes of a row the last counts; the listing changes only where an item appears or goes. Invariant: writing the
 * fold of any suffix of the log onto a view that already reflects it leaves the view as it is.
 */
import type { KeyWrite } from '#infra/redis/guarded-write.ts'
import type { BookChanged, OfferUrlChanged, Side } from '#schemas/events/book-changed.ts'
import type { BookRowStored } from '#schemas/events/book-state.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { RedisFold } from '#streams/runner/view.ts'
import { encodeRow, itemKey, type LiveHead, listingKey, type TableId, touchedField } from './table.ts'

export interface LiveFold extends RedisFold {
  /** Takes a row of the book's own changelog; null takes it out. */
  row(row: { side: Side; provider: string; itemId: number; stored: BookRowStored | null }): void
  refreshed(side: Side, provider: string, at: Instant): void
}

interface LiveBatch {
  /** Key of an item's hash → provider → row text; null takes the row out. */
  rows: Map<string, Map<string, string | null>>
  /** Key of a provider's listing → item → the item, its score; null takes it out. */
  listings: Map<string, Map<string, string | null>>
  /** Side and provider of all that changed, refresh times included. */
  touched: Set<string>
}

const emptyBatch = (): LiveBatch => ({ rows: new Map(), listings: new Map(), touched: new Set() })

export function openLiveFold({ partition, version, prefix }: TableId, head: LiveHead | undefined): LiveFold {
  let own: Pick<LiveHead, 'ask' | 'bid' | 'succeeds'> = {
    ask: head?.ask ?? {},
    bid: head?.bid ?? {},
    ...(head?.succeeds !== undefined && { succeeds: head.succeeds }),
  }
  let batch = emptyBatch()
  const set = (side: Side, provider: string, itemId: number, text: string | null, isListed?: boolean): void => {
    put(batch.rows, itemKey(partition, version, side, itemId, prefix), provider, text)
    const item = String(itemId)
    if (isListed !== undefined)
      put(batch.listings, listingKey(partition, version, side, provider, prefix), item, isListed ? item : null)
    batch.touched.add(touchedField(side, provider))
  }
  const refreshed = (side: Side, provider: string, at: Instant): void => {
    own = { ...own, [side]: { ...own[side], [provider]: Math.max(own[side][provider] ?? 0, at) } }
    batch.touched.add(touchedField(side, provider))
  }
  return {
    apply({ event, value }) {
      if (event === 'RefreshMarked') {
        refreshed(value.side, value.provider, value.last_updated)
        return OK
      }
      if (event !== 'BookChanged' && event !== 'OfferUrlChanged') return { kind: 'skip', reason: 'other_event' }
      const change: BookChanged | OfferUrlChanged = value
      const fault = unstorable(change.item_id, change.seen_at)
      if (fault) return { kind: 'deadLetter', ...fault }
      const text = textOf(change)
      const isAdded = 'change' in change && change.change === 'added'
      set(change.side, change.provider, change.item_id, text, text === null ? false : isAdded || undefined)
      return OK
    },
    row({ side, provider, itemId, stored }) {
      const text = stored && textOf(stored)
      set(side, provider, itemId, text, text !== null)
    },
    refreshed,
    drain() {
      const { rows, listings, touched } = batch
      batch = emptyBatch()
      const writes = [...writesOf(rows, 'HSET', 'HDEL'), ...writesOf(listings, 'ZADD', 'ZREM')]
      return { writes, own, touched: [...touched] }
    },
  }
}

function put(map: LiveBatch['rows'], key: string, member: string, value: string | null): void {
  const members = map.get(key)
  if (members) members.set(member, value)
  else map.set(key, new Map([[member, value]]))
}

function textOf(row: BookChanged | OfferUrlChanged | BookRowStored): string | null {
  const { price, currency, price_micro_usd: priceMicroUsd, quantity, seen_at: seenAt, url } = row
  if (price === null || priceMicroUsd === null) return null
  return encodeRow({ price, currency, priceMicroUsd, quantity, seenAt, url })
}

/** The two arguments of a member are name and text in a hash, score and name in a sorted set, where they are the same. */
function* writesOf(keys: LiveBatch['rows'], add: 'HSET' | 'ZADD', remove: 'HDEL' | 'ZREM'): Generator<KeyWrite> {
  for (const [key, members] of keys) {
    const [listed, gone]: [string[], string[]] = [[], []]
    for (const [member, text] of members) {
      if (text === null) gone.push(member)
      else listed.push(member, text)
    }
    if (listed.length > 0) yield { command: add, key, args: listed }
    if (gone.length > 0) yield { command: remove, key, args: gone }
  }
}
