/**
 * Subscribers, and the frames of a batch of changes for each of them.
 *
 * Pure: no socket, clock or log. A batch makes one frame for all unfiltered subscribers of its provider (the same Buffer,
 * whatever their number), and an item's text is made once however many filters match it. Invariant: a subscriber gets each
 * matching change once, in the order of the batch, and never a batch that began before it subscribed.
 */
import type { BookChanged, Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { changedFrame, type ItemText, openItemText, rowOf } from './frames.ts'
import type { ReleasedBatch } from './refresh-buffer.ts'

/** What a hub needs of a batch. */
export type ChangeBatch = Pick<ReleasedBatch, 'side' | 'provider' | 'changes'>

/** Items of one event at most (DECISIONS.md, "Feeds"). */
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
export interface FrameDelivery<S> {
  frame: Buffer
  to: readonly S[]
  /** The changes in the frame. */
  changes: readonly BookChanged[]
  /** Changes of the batch, from its first, that these subscribers need no more of. */
  through: number
}

/** The subscribers of one process. */
export interface Hub<S extends Subscription> {
  add(subscriber: S): void
  remove(subscriber: S): void
  /** The frames of a batch, made as they are taken; subscribers are those of the first. */
  deliver(batch: ChangeBatch): Iterable<FrameDelivery<S>>
  /** Changes left out because the catalog does not hold their item. */
  unknownItems(): number
}

type ItemOf = (itemId: number) => CatalogItem | undefined

/** The subscribers of one side, found by what they name. */
interface SubscriberIndex<S> {
  unfiltered: Set<S>
  byItem: Map<number, Set<S>>
  byName: Map<string, Set<S>>
}

const emptyIndex = <S>(): SubscriberIndex<S> => ({ unfiltered: new Set(), byItem: new Map(), byName: new Map() })

/** Opens a hub; `itemOf` looks an item up in the catalog. */
export function openHub<S extends Subscription>(itemOf: ItemOf, itemText = openItemText()): Hub<S> {
  const indexes: Record<Side, SubscriberIndex<S>> = { ask: emptyIndex(), bid: emptyIndex() }
  let unknown = 0
  return {
    add(subscriber) {
      const { unfiltered, byItem, byName } = indexes[subscriber.side]
      if (!subscriber.isFiltered) unfiltered.add(subscriber)
      for (const itemId of subscriber.itemIds) addTo(byItem, itemId, subscriber)
      for (const name of subscriber.names) addTo(byName, name, subscriber)
    },
    remove(subscriber) {
      const { unfiltered, byItem, byName } = indexes[subscriber.side]
      unfiltered.delete(subscriber)
      for (const itemId of subscriber.itemIds) removeFrom(byItem, itemId, subscriber)
      for (const name of subscriber.names) removeFrom(byName, name, subscriber)
    },
    *deliver(batch) {
      const index = indexes[batch.side]
      const wants = ({ providers }: S) => providers === undefined || providers.has(batch.provider)
      const all = [...index.unfiltered].filter(wants)
      const matched = matchFilters(index, batch.changes, itemOf, wants)
      const textsOf = openTexts(itemOf, itemText, () => {
        unknown += 1
      })
      if (all.length > 0) yield* framesOf(batch, batch.changes, textsOf, all)
      for (const [change, to] of takeSingles(matched)) yield* framesOf(batch, [change], textsOf, to)
      for (const [subscriber, changes] of matched) yield* framesOf(batch, changes, textsOf, [subscriber])
    },
    unknownItems: () => unknown,
  }
}

/** The filtered subscribers of some changes, each with its own. Costs two lookups a change, not one a subscriber. */
function matchFilters<S>(
  { byItem, byName }: SubscriberIndex<S>,
  changes: readonly BookChanged[],
  itemOf: ItemOf,
  wants: (subscriber: S) => boolean,
): Map<S, BookChanged[]> {
  const matched = new Map<S, BookChanged[]>()
  if (byItem.size === 0 && byName.size === 0) return matched
  for (const change of changes) {
    const name = itemOf(change.item_id)?.market_hash_name
    const named = name === undefined ? undefined : byName.get(name)
    for (const found of [byItem.get(change.item_id), named]) {
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

/** Takes out the subscribers of one change alone, by that change: one frame serves all of them. */
function takeSingles<S>(matched: Map<S, BookChanged[]>): Map<BookChanged, S[]> {
  const singles = new Map<BookChanged, S[]>()
  for (const [subscriber, [change, ...more]] of matched) {
    if (change === undefined || more.length > 0) continue
    matched.delete(subscriber)
    const found = singles.get(change)
    if (found) found.push(subscriber)
    else singles.set(change, [subscriber])
  }
  return singles
}

/** The texts of changes, each made once however many subscribers get it, and not before the first of them does. */
interface Texts {
  /** Whether the catalog holds the item of a change. */
  has(change: BookChanged): boolean
  of(change: BookChanged): string
}

function openTexts(itemOf: ItemOf, itemText: ItemText, onUnknown: () => void): Texts {
  const texts = new Map<BookChanged, string>()
  const unknown = new Set<BookChanged>()
  return {
    has(change) {
      if (itemOf(change.item_id) !== undefined) return true
      if (!unknown.has(change)) onUnknown()
      unknown.add(change)
      return false
    },
    of(change) {
      const text = texts.get(change) ?? itemText(itemOf(change.item_id) as CatalogItem, rowOf(change))
      texts.set(change, text)
      return text
    },
  }
}

/** The events of some changes of a batch, for the same receivers. */
function* framesOf<S>(
  { side, provider, changes: all }: ChangeBatch,
  wanted: readonly BookChanged[],
  textsOf: Texts,
  to: readonly S[],
): Iterable<FrameDelivery<S>> {
  const known = wanted.filter(textsOf.has)
  let delivered = 0
  let through = 0
  for (const moment of bySeenAt(known)) {
    const seenAt = moment[0]?.seen_at ?? 0
    for (let from = 0; from < moment.length; from += EVENT_ITEMS_MAX) {
      const changes = moment.slice(from, from + EVENT_ITEMS_MAX)
      const texts = changes.map(textsOf.of)
      delivered += changes.length
      through = delivered === known.length ? all.length : all.indexOf(known[delivered] as BookChanged, through)
      yield { frame: changedFrame(side, provider, seenAt, texts), to, changes, through }
    }
  }
}

/** Events of changes of any providers of one side, for one subscriber. */
export function* framesOfRows(
  side: Side,
  changes: readonly BookChanged[],
  itemOf: ItemOf,
  itemText: ItemText,
): Iterable<Buffer> {
  for (const [provider, own] of Map.groupBy(changes, change => change.provider)) {
    const textsOf = openTexts(itemOf, itemText, () => undefined)
    for (const { frame } of framesOf({ side, provider, changes: own }, own, textsOf, [])) yield frame
  }
}

/** Runs of changes that were seen at the same moment: one event is of one moment. */
function* bySeenAt(changes: readonly BookChanged[]): Iterable<readonly BookChanged[]> {
  let from = 0
  for (let at = 1; at <= changes.length; at++) {
    if (at < changes.length && changes[at]?.seen_at === changes[from]?.seen_at) continue
    yield changes.slice(from, at)
    from = at
  }
}

function addTo<K, S>(index: Map<K, Set<S>>, key: K, subscriber: S): void {
  const found = index.get(key)
  if (found) found.add(subscriber)
  else index.set(key, new Set([subscriber]))
}

function removeFrom<K, S>(index: Map<K, Set<S>>, key: K, subscriber: S): void {
  const found = index.get(key)
  found?.delete(subscriber)
  if (found?.size === 0) index.delete(key)
}
