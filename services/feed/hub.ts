/**
 * Subscribers, and what of a frame each of them gets.
 *
 * Pure: no socket, clock or log. All unfiltered subscribers of a provider get the same Buffer, whatever their number, and so do the
 * filtered ones that want one item alone. Invariant: a subscriber gets each matching change once, in the order of the log, and
 * nothing of a frame that was delivered before it subscribed.
 */
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { Subscription } from './feed-request.ts'
import { pickItems } from './frames.ts'
import type { FeedFrame } from './window.ts'

export interface Delivery<S> {
  bytes: Buffer
  to: readonly S[]
  /** The items of the frame that are in the bytes, by their indexes; undefined: all. */
  indexes: readonly number[] | undefined
}

export type Hub<S extends Subscription> = ReturnType<typeof openHub<S>>

export type ItemOf = (itemId: number) => CatalogItem | undefined

interface SubscriberIndex<S> {
  unfiltered: Set<S>
  /** By item id, and by name. */
  filtered: Map<number | string, Set<S>>
}

const emptyIndex = <S>(): SubscriberIndex<S> => ({ unfiltered: new Set(), filtered: new Map() })

export const wantsProvider = ({ providers }: Subscription, provider: string): boolean =>
  providers === undefined || providers.has(provider)

const nameOf = (itemOf: ItemOf, itemId: number): string => itemOf(itemId)?.market_hash_name ?? ''

/** Whether a subscription names an item. */
export const wantsItem = ({ itemIds, names, isFiltered }: Subscription, itemId: number, itemOf: ItemOf): boolean =>
  !isFiltered || itemIds.has(itemId) || (names.size > 0 && names.has(nameOf(itemOf, itemId)))

export function matchingItems(subscription: Subscription, frame: FeedFrame, itemOf: ItemOf): number[] {
  if (subscription.side !== frame.side || !wantsProvider(subscription, frame.provider)) return []
  return [...frame.itemIds.keys()].filter(at => wantsItem(subscription, frame.itemIds[at] as number, itemOf))
}

export function openHub<S extends Subscription>(itemOf: ItemOf) {
  const indexes: Record<FeedSide, SubscriberIndex<S>> = { ask: emptyIndex(), bid: emptyIndex(), sale: emptyIndex() }
  return {
    add(subscriber: S): void {
      const { unfiltered, filtered } = indexes[subscriber.side]
      if (!subscriber.isFiltered) unfiltered.add(subscriber)
      for (const filter of [...subscriber.itemIds, ...subscriber.names]) {
        const subscribers = filtered.get(filter)
        if (subscribers) subscribers.add(subscriber)
        else filtered.set(filter, new Set([subscriber]))
      }
    },
    remove(subscriber: S): void {
      const { unfiltered, filtered } = indexes[subscriber.side]
      unfiltered.delete(subscriber)
      for (const filter of [...subscriber.itemIds, ...subscriber.names]) {
        const subscribers = filtered.get(filter)
        subscribers?.delete(subscriber)
        if (subscribers?.size === 0) filtered.delete(filter)
      }
    },
    deliver(frame: FeedFrame): Delivery<S>[] {
      const index = indexes[frame.side]
      const all = [...index.unfiltered].filter(subscriber => wantsProvider(subscriber, frame.provider))
      // Those who get one item alone share its bytes.
      const matched = Map.groupBy(filteredOf(index.filtered, frame, itemOf), ([, own]) =>
        own.length === 1 ? own[0] : own,
      )
      return [
        ...(all.length > 0 ? [{ bytes: frame.bytes, to: all, indexes: undefined }] : []),
        ...[...matched.values()].map(alike => {
          const [, own] = alike[0] as [S, number[]]
          return { bytes: pickItems(frame, own), to: alike.map(([subscriber]) => subscriber), indexes: own }
        }),
      ]
    },
  }
}

/** The filtered subscribers of a frame, each with the indexes of its items. Costs two lookups an item, not one a subscriber. */
function filteredOf<S extends Subscription>(
  filtered: SubscriberIndex<S>['filtered'],
  frame: FeedFrame,
  itemOf: ItemOf,
): Map<S, number[]> {
  const matched = new Map<S, number[]>()
  if (filtered.size === 0) return matched
  for (const [at, itemId] of frame.itemIds.entries()) {
    for (const filter of [itemId, nameOf(itemOf, itemId)]) {
      for (const subscriber of filtered.get(filter) ?? []) {
        if (!wantsProvider(subscriber, frame.provider)) continue
        const own = matched.get(subscriber)
        if (own === undefined) matched.set(subscriber, [at])
        // One that names the item by id and by name gets it once.
        else if (own.at(-1) !== at) own.push(at)
      }
    }
  }
  return matched
}
