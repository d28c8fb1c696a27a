/**
 * A source and its connector, which turns a due time into refreshes; ingest judges and publishes them.
 *
 * Connectors know transport and meaning of one kind of source, never Kafka. Invariant: entries come as the source has them,
 * unjudged and in its order; outcomes are returned, so an exception of a connector is a bug or the end of the process.
 */
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import type { RateTable } from './fx/rate-table.ts'

export interface Source {
  provider: string
  side: FeedSide
}

export interface SourceSettings extends Source {
  intervalMs: number
  /** The provider's currency, where the source names none. */
  currency: string
}

export interface RawEntry {
  readonly market_hash_name: unknown
  readonly phase?: unknown
  /** Hundredths of the refresh's currency. */
  readonly price: unknown
  readonly quantity?: unknown
  readonly url?: unknown
}

/** A sale's members are those of the event. */
export type RawSale = RawEntry & { readonly sold_at: unknown } & Readonly<Partial<Record<keyof SaleObserved, unknown>>>

export interface Refresh {
  kind: 'refresh'
  observedAt: number
  currency: string
  /** Walked once. */
  entries: Iterable<RawEntry>
}

export interface FailedRefresh {
  kind: 'failed'
  observedAt: number
  reason: string
  /** A sentence for people, without secrets. */
  detail: string
}

export interface Connector {
  /**
   * The refreshes at a due time, in time order. `at`: the time that the schedule names; `after`: that of the source's last published
   * refresh.
   */
  poll(due: {
    at: number
    now: number
    after: number | undefined
    rates: RateTable
    signal: AbortSignal
  }): AsyncIterable<Refresh | FailedRefresh>
  /** The refresh of a past time; only of sources that know their past. `after`: the refresh before it. */
  refreshAt?(at: number, after: number, rates: RateTable): Refresh
}

export interface OpenSource extends SourceSettings {
  connector: Connector
}
