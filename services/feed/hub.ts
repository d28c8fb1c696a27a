/**
 * Who gets what: subscribers, and the frames that a batch of changes makes for them.
 *
 * Pure: no socket, clock or log. Invariant: a batch makes one frame for all unfiltered subscribers of its
 * provider (the same Buffer, whatever their number), and an item's text is made once however many filters
 * match it. A subscriber gets each matching change once, in the order of the batch, and never a batch
 * that began before it subscribed.
 */
import type { BookChanged, Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { changedFrame, itemText } from './frames.ts'
import type { Batch } from './refresh-buffer.ts'

/** Items of one event at most (decisions.md, "Feeds"). */
export const EVENT_ITEMS_MAX = 1_000

/** What a subscriber wants. */
export interface Subscription {
  side: Side
  /** Undefined: every provider. */
  providers: ReadonlySet<string> | undefined
  /** Both undefined or empty and `isFiltered` false: every item. */
  itemIds: ReadonlySet<number>
  names: ReadonlySet<string>
  isFiltered: boolean
}

/** Bytes for some subscribers. */
export interface Delivery<S> {
  frame: Buffer
  to: readonly S[]
  items: number
}

/** The subscribers of one process. */
export interface Hub<S extends Subscription> {
  add(subscriber: S): void
  remove(subscriber: S): void
  /** The frames of a batch, made as they are taken; subscribers are those of the first. */
  deliver(batch: Batch): Iterable<Delivery<S>>
  /** Changes left out because the catalog does not hold their item. */
  unknownItems(): number
}

/** Opens a hub; `itemOf` looks an item up in the catalog. */
export function openHub<S extends Subscription>(itemOf: (itemId: number) => CatalogItem | undefined): Hub<S> {
  const everything: Record<Side, Set<S>> = { ask: new Set(), bid: new Set() }
  const byItem: Record<Side, Map<number, Set<S>>> = { ask: new Map(), bid: new Map() }
  const byName: Record<Side, Map<string, Set<S>>> = { ask: new Map(), bid: new Map() }
  let unknown = 0

  function* deliver(batch: Batch): Iterable<Delivery<S>> {
    const { side, provider } = batch
    const wants = ({ providers }: S) => providers === undefined || providers.has(provider)
    const all = [...everything[side]].filter(wants)
    const matched = matchFilters(batch, wants)
    const textOf = openTexts()
    if (all.length > 0) yield* framesOf(batch, batch.changes, textOf, all)
    for (const [subscriber, changes] of matched) yield* framesOf(batch, changes, textOf, [subscriber])
  }

  /** The filtered subscribers of a batch, each with its changes. Costs two lookups per change, not per subscriber. */
  function matchFilters({ side, changes }: Batch, wants: (subscriber: S) => boolean): Map<S, BookChanged[]> {
    const matched = new Map<S, BookChanged[]>()
    if (byItem[side].size === 0 && byName[side].size === 0) return matched
    for (const change of changes) {
      const name = itemOf(change.item_id)?.market_hash_name
      const named = name === undefined ? undefined : byName[side].get(name)
      for (const found of [byItem[side].get(change.item_id), named]) {
        for (const subscriber of found ?? []) {
          if (!wants(subscriber)) continue
          const own = matched.get(subscriber)
          if (own === undefined) matched.set(subscriber, [change])
          // One that names the item by id and by name gets it once.
          else if (own.at(-1) !== change) own.push(change)
        }
      }
    }
    return matched
  }

  /** Makes the text of each change once, whoever asks for it. */
  function openTexts(): (change: BookChanged) => string | undefined {
    const texts = new Map<BookChanged, string | undefined>()
    return change => {
      if (texts.has(change)) return texts.get(change)
      const item = itemOf(change.item_id)
      if (item === undefined) unknown += 1
      const text = item && itemText(item, change)
      texts.set(change, text)
      return text
    }
  }

  function* framesOf(
    { side, provider }: Batch,
    changes: readonly BookChanged[],
    textOf: (change: BookChanged) => string | undefined,
    to: readonly S[],
  ): Iterable<Delivery<S>> {
    for (const moment of bySeenAt(changes)) {
      const texts = moment.map(textOf).filter(text => text !== undefined)
      const seenAt = moment[0]?.seen_at ?? 0
      for (let from = 0; from < texts.length; from += EVENT_ITEMS_MAX) {
        const part = texts.slice(from, from + EVENT_ITEMS_MAX)
        yield { frame: changedFrame(side, provider, seenAt, part), to, items: part.length }
      }
    }
  }

  return {
    add(subscriber) {
      const { side, isFiltered, itemIds, names } = subscriber
      if (!isFiltered) everything[side].add(subscriber)
      for (const itemId of itemIds) enrol(byItem[side], itemId, subscriber)
      for (const name of names) enrol(byName[side], name, subscriber)
    },
    remove(subscriber) {
      const { side, itemIds, names } = subscriber
      everything[side].delete(subscriber)
      for (const itemId of itemIds) strike(byItem[side], itemId, subscriber)
      for (const name of names) strike(byName[side], name, subscriber)
    },
    deliver,
    unknownItems: () => unknown,
  }
}

/** Runs of changes that were seen at the same moment: one event tells one moment. */
function* bySeenAt(changes: readonly BookChanged[]): Iterable<readonly BookChanged[]> {
  let from = 0
  for (let at = 1; at <= changes.length; at++) {
    if (at < changes.length && changes[at]?.seen_at === changes[from]?.seen_at) continue
    yield changes.slice(from, at)
    from = at
  }
}

function enrol<K, S>(index: Map<K, Set<S>>, key: K, subscriber: S): void {
  const found = index.get(key)
  if (found) found.add(subscriber)
  else index.set(key, new Set([subscriber]))
}

function strike<K, S>(index: Map<K, Set<S>>, key: K, subscriber: S): void {
  const found = index.get(key)
  found?.delete(subscriber)
  if (found?.size === 0) index.delete(key)
}
