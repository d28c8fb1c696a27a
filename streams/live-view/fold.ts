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

const SIDES: readonly Side[] = ['ask', 'bid']

interface SideBatch {
  /** Item → provider → row text; null takes the row out. */
  items: Map<number, Map<string, string | null>>
  /** Provider → item → whether it is listed from now on. */
  listings: Map<string, Map<number, boolean>>
  /** Provider → when it was last refreshed. */
  refreshed: Map<string, number>
}

type LiveBatch = Record<Side, SideBatch>

const emptySide = (): SideBatch => ({ items: new Map(), listings: new Map(), refreshed: new Map() })

const emptyBatch = (): LiveBatch => ({ ask: emptySide(), bid: emptySide() })

function foldChange(batch: LiveBatch, change: BookChanged | OfferUrlChanged): void {
  const { side, provider, item_id: itemId } = change
  const text = textOf(change)
  setRow(batch[side], itemId, provider, text)
  if (text === null) setListing(batch[side], itemId, provider, false)
  else if ('change' in change && change.change === 'added') setListing(batch[side], itemId, provider, true)
}

/** The text of a row as a change, or the book's changelog, has it; null where nothing is listed. */
function textOf(row: BookChanged | OfferUrlChanged | BookRowStored): string | null {
  const { price, currency, price_micro_usd: priceMicroUsd, quantity, seen_at: seenAt, url } = row
  if (price === null || priceMicroUsd === null) return null
  return encodeRow({ price, currency, priceMicroUsd, quantity, seenAt, url })
}

/** A row of the book's own changelog; null takes it out. */
interface BaseRow {
  side: Side
  provider: string
  itemId: number
  stored: BookRowStored | null
}

function foldRow(batch: LiveBatch, { side, provider, itemId, stored }: BaseRow): void {
  const text = stored && textOf(stored)
  setRow(batch[side], itemId, provider, text)
  setListing(batch[side], itemId, provider, text !== null)
}

function foldRefreshed(batch: LiveBatch, side: Side, provider: string, at: Instant): void {
  const { refreshed } = batch[side]
  refreshed.set(provider, Math.max(refreshed.get(provider) ?? 0, at))
}

function setRow({ items }: SideBatch, itemId: number, provider: string, text: string | null): void {
  const rows = items.get(itemId)
  if (rows) rows.set(provider, text)
  else items.set(itemId, new Map([[provider, text]]))
}

function setListing({ listings }: SideBatch, itemId: number, provider: string, isListed: boolean): void {
  const listing = listings.get(provider)
  if (listing) listing.set(itemId, isListed)
  else listings.set(provider, new Map([[itemId, isListed]]))
}

/** One write per item and one per listing, whatever the number of rows. */
function writesOf({ partition, version, prefix }: TableId, batch: LiveBatch): KeyWrite[] {
  const writes: KeyWrite[] = []
  const queue = (command: KeyWrite['command'], key: string, args: readonly string[]): void => {
    if (args.length > 0) writes.push({ command, key, args })
  }
  for (const side of SIDES) {
    for (const [itemId, rows] of batch[side].items) {
      const set: string[] = []
      const gone: string[] = []
      for (const [provider, text] of rows) {
        if (text === null) gone.push(provider)
        else set.push(provider, text)
      }
      const key = itemKey(partition, version, side, itemId, prefix)
      queue('HSET', key, set)
      queue('HDEL', key, gone)
    }
    for (const [provider, items] of batch[side].listings) {
      const listed: string[] = []
      const gone: string[] = []
      for (const [itemId, isListed] of items) {
        const member = String(itemId)
        if (isListed) listed.push(member, member)
        else gone.push(member)
      }
      const key = listingKey(partition, version, side, provider, prefix)
      queue('ZADD', key, listed)
      queue('ZREM', key, gone)
    }
  }
  return writes
}

/** Side and provider of all that a batch changes, refresh times included. */
function touchedBy(batch: LiveBatch): string[] {
  const fields = new Set<string>()
  for (const side of SIDES) {
    for (const rows of batch[side].items.values()) for (const key of rows.keys()) fields.add(touchedField(side, key))
    for (const key of batch[side].refreshed.keys()) fields.add(touchedField(side, key))
  }
  return [...fields]
}

export interface LiveFold extends RedisFold {
  row(row: BaseRow): void
  refreshed(side: Side, provider: string, at: Instant): void
}

export function openLiveFold(version: TableId, head: LiveHead | undefined): LiveFold {
  let own: Pick<LiveHead, 'ask' | 'bid' | 'succeeds'> = {
    ...{ ask: head?.ask ?? {}, bid: head?.bid ?? {} },
    ...(head?.succeeds !== undefined && { succeeds: head.succeeds }),
  }
  let batch = emptyBatch()
  return {
    apply({ event, value }) {
      if (event === 'RefreshMarked') {
        foldRefreshed(batch, value.side, value.provider, value.last_updated)
        return OK
      }
      if (event !== 'BookChanged' && event !== 'OfferUrlChanged') return { kind: 'skip', reason: 'other_event' }
      const fault = unstorable(value.item_id, value.seen_at)
      if (fault) return { kind: 'deadLetter', ...fault }
      foldChange(batch, value)
      return OK
    },
    row: row => foldRow(batch, row),
    refreshed: (side, provider, at) => foldRefreshed(batch, side, provider, at),
    take() {
      const taken = batch
      batch = emptyBatch()
      own = { ...own, ask: merged(own.ask, taken.ask), bid: merged(own.bid, taken.bid) }
      return { writes: writesOf(version, taken), own, touched: touchedBy(taken) }
    },
  }
}

function merged(before: Record<string, number>, { refreshed }: SideBatch): Record<string, number> {
  const after = { ...before }
  for (const [provider, at] of refreshed) after[provider] = Math.max(after[provider] ?? 0, at)
  return after
}
