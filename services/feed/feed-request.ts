/** A request for a stream, with its names as the catalog spells them. */
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { FeedQuery, ReplayQuery } from '#schemas/api/feed-query.ts'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import { plainName } from '#schemas/values/item-name.ts'

export interface Subscription {
  side: FeedSide
  /** Undefined: every provider. */
  providers: ReadonlySet<string> | undefined
  /** Both empty and `isFiltered` false: every item. */
  itemIds: ReadonlySet<number>
  names: ReadonlySet<string>
  isFiltered: boolean
}

/** A subscription with what its `ready` event holds. */
export interface FeedRequest {
  subscription: Subscription
  /** Those of the query, or all of its side. */
  providers: readonly string[]
  itemIdsCount: number
  namesCount: number
  /** Beyond the specification, all off unless asked for. */
  options: {
    /** Events carry ids, and `Last-Event-ID` resumes after one. */
    resume: boolean
    /** The current state comes first. */
    snapshot: boolean
    /** A slow client gets the latest of each row instead of its end. */
    conflate: boolean
  }
}

export type FeedCatalog = Pick<CatalogReader, 'byId' | 'idsOfName'>

/** The catalog's spelling of a name; of one that it lacks, those under which its item would most likely come. */
function spellingsOf(catalog: FeedCatalog, name: string): string[] {
  const item = catalog.byId(catalog.idsOfName(name)[0] ?? -1)
  return item ? [item.market_hash_name] : [name, plainName(name)]
}

/** Reads a query; a replay has none of the options. `allProviders` are those of the side. */
export function feedRequestOf(
  side: FeedSide,
  query: FeedQuery | ReplayQuery,
  catalog: FeedCatalog,
  allProviders: readonly string[],
): FeedRequest {
  const { providers, item_ids: ids = [], market_hash_names: names = [] } = query
  const { resume = false, snapshot = false, policy } = 'from' in query ? {} : query
  return {
    subscription: {
      side,
      providers: providers && new Set(providers),
      itemIds: new Set(ids),
      names: new Set(names.flatMap(name => spellingsOf(catalog, name))),
      isFiltered: ids.length + names.length > 0,
    },
    providers: providers ? [...new Set(providers)] : allProviders,
    itemIdsCount: ids.length,
    namesCount: names.length,
    options: { resume, snapshot, conflate: policy === 'conflate' },
  }
}
