/**
 * What the routes of the API are given: the views, the catalog, the registry and a clock.
 *
 * Opened and closed by main.ts. Invariant: routes use nothing that is not named here.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { TIERS, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { AddressLimit } from '#infra/redis/address-limit.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { RequestMeter } from '#infra/redis/request-meter.ts'
import type { StreamSlots } from '#infra/redis/stream-slots.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import type { RefusesUrl } from '#schemas/api/webhooks.ts'
import type { KeyUse } from '#services/accounts/access/commands.ts'
import type { KeyDirectory } from '#services/accounts/access/reader.ts'
import type { MailScope } from '#services/accounts/commands.ts'
import type { PlatformScope, SignInScope } from '#services/accounts/sign-in/commands.ts'
import type { UnsubscribeLinks } from '#services/accounts/unsubscribe/reader.ts'
import type { Inventories } from '#services/inventory/reader.ts'
import type { MarketViews } from '#streams/market-summary/reader.ts'
import type { ProviderHealthReader } from '#streams/provider-health/reader.ts'
import type { Cursors } from './cursors.ts'
import type { FxRates } from './queries/fx-rates.ts'
import type { LiveView } from './queries/live-view.ts'
import type { SnapshotStreams } from './snapshot-streams.ts'

/** What the routes work with. */
export interface ApiParts {
  catalog: CatalogReader
  registry: ProviderRegistry
  tiers: Record<Tier, TierLimits>
  keys: KeyDirectory
  keyUse: KeyUse
  meter: RequestMeter
  addresses: AddressLimit
  streamSlots: StreamSlots
  snapshotStreams: SnapshotStreams
  live: LiveView
  market: MarketViews
  health: ProviderHealthReader
  redis: Redis
  /** Of all Redis keys. */
  prefix: string
  clickhouse: ClickhouseReader
  fx: FxRates
  /** Of the write sides: accounts, keys, alerts, webhooks, portfolios. */
  database: Database
  /** Of stored secrets; undefined without a key of the environment. */
  box: SealedBox | undefined
  /** Recognizes URLs that no webhook may have. */
  refusesUrl: RefusesUrl
  /** Of alert mails; undefined without a key of the environment. */
  unsubscribeLinks: UnsubscribeLinks | undefined
  /** Undefined: sign-in is not configured. */
  signIn: SignInScope | undefined
  /** Undefined: platform links are not configured. */
  platformSignIn: PlatformScope | undefined
  /** Undefined: mail is not configured. */
  mail: MailScope | undefined
  /** Of the game's platform; undefined: this service is connected to none. */
  inventories: Inventories | undefined
  cursors: Cursors
  /** Public root of the API, without a trailing slash. */
  baseUrl: string
  /** Milliseconds since the epoch. */
  now: () => number
}

/** One value for every tier, made once. */
export function perTier<T>(parts: ApiParts, make: (limits: TierLimits) => T): Record<Tier, T> {
  return Object.fromEntries(TIERS.map(tier => [tier, make(parts.tiers[tier])])) as Record<Tier, T>
}
