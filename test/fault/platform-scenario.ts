/**
 * A market that is polled, judged, viewed, summarised, watched and sold by the whole platform, for tests that break things beside it.
 *
 * Marketplaces answer ingest over HTTP; clients of the feeds come back with Last-Event-ID, clients of the API read on, alerts are made and
 * fire. States: opened → under load → drained. Invariant: what is drained is held by every view, client and destination, so that the ledgers may be made.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LagReader } from '#infra/kafka/lag.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { createAlerts, type NewAlert } from '#services/alerts/rules/commands.ts'
import { readingGroups } from '#services/cli/reading-groups.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { openReceiver, type Receiver } from '#test/fixtures/webhook-receiver.ts'
import { eventually } from '#test/harness/eventually.ts'
import { givenOf, type PublishedRefresh } from '#test/harness/published-records.ts'
import { type Expected, type ExpectedChange, foldRefreshes } from '#test/harness/reference-fold.ts'
import { randomOf, type SeededRandom } from '#test/harness/seeded-random.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { deliveriesLeft, type Owner, openOwner, rulesToRelay } from './alert-ledgers.ts'
import { alertNear } from './alert-load.ts'
import type { PlainRule } from './alert-truth.ts'
import { type Marketplaces, openMarketplaces } from './marketplaces.ts'
import { type PriceReader, startPriceReader } from './price-reader.ts'
import { readRefreshesOfLog } from './refreshes-of-log.ts'
import { openResumingClient, type ResumingClient } from './resuming-client.ts'
import { readSummary } from './side-ledgers.ts'
import { startWholePlatform, type WholePlatform } from './whole-platform.ts'

/** How large a scenario is. */
export interface ScenarioOptions {
  items: number
  /** Roles of two processes. */
  twice: readonly RoleName[]
  /** The longest time that a process may take to be ready, or a view to be drained. */
  limitMs: number
}

/** A scenario: who takes part; nothing is published yet. */
export interface PlatformScenario {
  readonly options: ScenarioOptions
  readonly platform: TestPlatform
  readonly random: SeededRandom
  readonly kafka: KafkaConnection
  readonly database: Database
  readonly receiver: Receiver
  readonly marketplaces: Marketplaces
  readonly roles: WholePlatform
  readonly owner: Owner
  /** A key of a new account of the highest tier. */
  newKey(): Promise<string>
  /** Records that wait for any group; of a log that does not answer, the editions that were served meanwhile wait for it. */
  waiting(): Promise<number>
  close(): Promise<void>
}

/** A client of a feed, and what it is to receive. */
interface Listener {
  client: ResumingClient
  isDelivered(change: ExpectedChange): boolean
  /** How many changes it receives at least. */
  least: number
}

/** What goes on beside the faults. */
export interface ScenarioLoad {
  /** About prices to come; the log held them before the first of these. */
  rules: readonly PlainRule[]
  listeners: readonly Listener[]
  reader: PriceReader
  /** Ends the making of alerts; resolves with those that were made meanwhile. */
  endAlerts(): Promise<PlainRule[]>
}

/** What has come of it. */
export interface DrainedScenario {
  /** Alerts that were made meanwhile. */
  made: readonly PlainRule[]
  refreshes: readonly PublishedRefresh[]
  expected: Expected
}

/** Alerts about prices to come. */
export const RULES = 120
const SALES_PROVIDER = 'provider_12'
const POLL_MS = 1_000
const ALERT_EVERY_MS = 400
/** The role makes one every two minutes. */
const SUMMARY_LIMIT_MS = 300_000
const PLENTY = { most: 1_000_000, mostInAll: 1_000_000 }

const newRandom = (random: SeededRandom): SeededRandom => randomOf(random.integer(0, 2 ** 31))

/** Opens a scenario; all roles but ingest are starting when it resolves. */
export async function openPlatformScenario(
  platform: TestPlatform,
  random: SeededRandom,
  options: ScenarioOptions,
): Promise<PlatformScenario> {
  const kafka = platform.connect()
  const look = await platform.openLagReader()
  const database = platform.openDatabase({ connections: 8, statementLimitMs: 30_000 })
  const receiver = await openReceiver()
  const size = {
    items: options.items,
    askProviders: ['provider_01', 'provider_02', 'provider_03', 'provider_05', 'provider_07', 'provider_08'],
    bidProviders: ['provider_02', 'provider_03', 'provider_04'],
  }
  const marketplaces = await openMarketplaces(newRandom(random), size, SALES_PROVIDER)
  const owner = await openOwner(database, platform.config, [`${receiver.url}/0`])
  const roles = startWholePlatform(platform, newRandom(random), {
    market: marketplaces.marketFile(POLL_MS),
    environment: { MARKETLOG_WEBHOOK_ALLOW: `127.0.0.1:${receiver.port}` },
    twice: options.twice,
    readyLimitMs: options.limitMs,
  })
  return {
    options,
    platform,
    random,
    kafka,
    database,
    receiver,
    marketplaces,
    roles,
    owner,
    newKey: async () => (await createAccountWithKey(database, { tier: 'quant' })).key,
    waiting: openBacklog(look, marketplaces),
    async close() {
      await roles.stop()
      await marketplaces.close()
      await receiver.close()
    },
  }
}

function openBacklog(look: LagReader, { served }: Marketplaces): PlatformScenario['waiting'] {
  const groups = readingGroups()
  let servedBefore = 0
  return async () => {
    try {
      const lags = await look.read(groups)
      servedBefore = served.length
      return lags.reduce((sum, { lag }) => sum + lag, 0)
    } catch {
      return served.length - servedBefore
    }
  }
}

async function makeAlerts({ database, owner }: PlatformScenario, alerts: readonly NewAlert[]): Promise<PlainRule[]> {
  const made = await createAlerts(database, owner.id, alerts, { ...PLENTY, now: Date.now() })
  return made.map(({ id, item_id, kind, threshold_value }) => ({
    id,
    itemId: item_id,
    kind,
    threshold: threshold_value,
  }))
}

const isRelayed =
  ({ database }: PlatformScenario) =>
  async (): Promise<boolean> =>
    (await rulesToRelay(database)) === 0

/** Opens ingest, once rules and clients are there; resolves when every client has received changes. */
export async function startScenario(scenario: PlatformScenario): Promise<ScenarioLoad> {
  const { roles, marketplaces, random, options } = scenario
  await roles.ready()
  const wanted = Array.from({ length: RULES }, () => alertNear(random, random.pick(marketplaces.items)))
  const rules = await makeAlerts(scenario, wanted)
  await eventually(isRelayed(scenario), 'the rules to be relayed')
  const listeners = await listen(scenario)
  roles.open()
  await roles.ready()
  const isUnderWay = () => listeners.every(({ client }) => client.rows().length > 0)
  await eventually(isUnderWay, 'every client to receive changes', options.limitMs)
  return { rules, listeners, reader: await readPrices(scenario), endAlerts: makeAlertsMeanwhile(scenario) }
}

/** Makes alerts that hold as soon as the item has an ask, until it is ended. */
function makeAlertsMeanwhile(scenario: PlatformScenario): () => Promise<PlainRule[]> {
  const { random, marketplaces } = scenario
  const made: PlainRule[] = []
  const ending = new AbortController()
  const run = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const { itemId: item_id, name: market_hash_name } = random.pick(marketplaces.items)
      const sure = { kind: 'price_above', threshold_value: '0.00000001', threshold_currency: 'USD' } as const
      made.push(
        ...(await makeAlerts(scenario, [{ ...sure, item_id, market_hash_name, phase: null, is_enabled: true }])),
      )
      await pause(ALERT_EVERY_MS, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }
  const running = run()
  running.catch(() => undefined)
  return async () => {
    ending.abort()
    await running
    return made
  }
}

async function listen({ marketplaces, newKey, roles, random, options }: PlatformScenario): Promise<Listener[]> {
  const some = new Set(marketplaces.items.slice(0, 40).map(({ itemId }) => itemId))
  const ids = [...some].map(id => `&item_ids=${id}`).join('')
  const { asks, bids } = marketplaces.least
  const kinds: [path: string, isDelivered: Listener['isDelivered'], least: number][] = [
    ['prices?resume=true', ({ side }) => side === 'ask', asks],
    ['bids?resume=true', ({ side }) => side === 'bid', bids],
    ['prices?resume=true&providers=provider_03', change => isOf(change, 'ask', 'provider_03'), options.items / 2],
    [`prices?resume=true${ids}`, ({ side, item_id }) => side === 'ask' && some.has(item_id), some.size],
  ]
  const opened = kinds.map(async ([path, isDelivered, least]) => {
    const key = await newKey()
    const gateways = () => roles.addresses('feed')
    const client = await openResumingClient({ path: `/v1/feed/${path}`, key, random: newRandom(random), gateways })
    return { client, isDelivered, least }
  })
  return Promise.all(opened)
}

const isOf = (change: ExpectedChange, side: string, provider: string): boolean =>
  change.side === side && change.provider === provider

async function readPrices({ newKey, marketplaces, random, roles }: PlatformScenario): Promise<PriceReader> {
  const key = await newKey()
  const itemIds = marketplaces.items.map(({ itemId }) => itemId)
  const own = newRandom(random)
  const address = (): string | undefined => {
    const ready = roles.addresses('api')
    return ready.length === 0 ? undefined : own.pick(ready)
  }
  return startPriceReader({ key, itemIds, address, random: own })
}

/** Resolves when every view, client and destination has what the marketplaces served last; the clients are stopped then. */
export async function drainScenario(scenario: PlatformScenario, load: ScenarioLoad): Promise<DrainedScenario> {
  const { marketplaces, roles, platform, database, kafka, options } = scenario
  const { limitMs } = options
  const views = () => platform.drained([], limitMs)
  const made = await load.endAlerts()
  await marketplaces.settle(limitMs)
  for (const ingest of roles.of('ingest')) await ingest.stop()
  await views()
  await eventually(isRelayed(scenario), 'the rules to be relayed', limitMs)
  await views()
  await eventually(async () => (await deliveriesLeft(database)) === 0, 'the deliveries to be settled', limitMs)
  await summarised(scenario, Date.now())

  const catalog = await openCatalogReader(kafka)
  const refreshes = await readRefreshesOfLog(kafka, name => catalog.idOf(name, null))
  await catalog.close()
  const expected = foldRefreshes(refreshes.map(givenOf))
  const late = (): string | undefined =>
    load.listeners.find(({ client, isDelivered }) => client.rows().length < expected.changes.filter(isDelivered).length)
      ?.client.path
  await eventually(() => late() === undefined, 'every client to receive the last changes', limitMs).finally(
    () => late() && console.log(`      did not receive all: ${late()}`),
  )
  await stopClients(load)
  return { made, refreshes, expected }
}

/** Stops the clients of the feeds and of the API. */
export async function stopClients({ listeners, reader, endAlerts }: ScenarioLoad): Promise<void> {
  await Promise.all([reader.stop(), endAlerts(), ...listeners.map(({ client }) => client.stop())])
}

/** Resolves when the platform has summarised what it has served since: by the process that has followed the market so far. */
async function summarised({ newKey, roles }: PlatformScenario, since: number): Promise<void> {
  const key = await newKey()
  const isSummarised = async (): Promise<boolean> => {
    const [base] = roles.addresses('api')
    return base !== undefined && ((await readSummary(base, key))?.asOf ?? 0) > since
  }
  await eventually(isSummarised, 'a summary of the last prices', SUMMARY_LIMIT_MS)
}
