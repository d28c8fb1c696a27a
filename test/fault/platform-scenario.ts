/**
 * A market that is polled, judged, viewed, summarised, watched and sold by the whole platform, for tests that break things beside it.
 *
 * Every role is a process of its own, some are two; one that the platform gains is among them without a change here. States: opened → under
 * load → drained. Invariant: what is drained is held by every view, client and destination, so that the ledgers may be made.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import type { LagReader } from '#infra/kafka/lag.ts'
import { createAlerts, type NewAlert } from '#services/alerts/rules/commands.ts'
import { readingGroups } from '#services/cli/reading-groups.ts'
import { chooseRoles, type RoleName } from '#services/cli/roles.ts'
import { openMailbox } from '#test/fixtures/mailbox.ts'
import { openReceiver } from '#test/fixtures/webhook-receiver.ts'
import { eventually } from '#test/harness/eventually.ts'
import { givenOf, type PublishedRefresh } from '#test/harness/published-records.ts'
import { type Expected, type ExpectedChange, foldRefreshes } from '#test/harness/reference-fold.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { alertNear, deliveriesLeft, openOwner, type PlainRule, rulesToRelay } from './alert-ledgers.ts'
import { type Kept, keepRunning, SAYS_WHY } from './keep-running.ts'
import { type Marketplaces, openMarketplaces } from './marketplaces.ts'
import { startPriceReader } from './price-reader.ts'
import { readRefreshesOfLog } from './refreshes-of-log.ts'
import { openResumingClient } from './resuming-client.ts'
import { readSummary } from './side-ledgers.ts'

interface ScenarioOptions {
  items: number
  /** Roles of two processes; clients of one come back to the other. */
  twice: readonly RoleName[]
  /** The longest time that a process may take to be ready, or a view to be drained. */
  limitMs: number
}

export type PlatformScenario = Awaited<ReturnType<typeof openPlatformScenario>>
export type ScenarioLoad = Awaited<ReturnType<typeof startScenario>>

export interface DrainedScenario {
  made: readonly PlainRule[]
  refreshes: readonly PublishedRefresh[]
  expected: Expected
}

export const RULES = 120
/** One answer of a destination in so many is a 503, which is tried again. */
const REFUSED_ONE_IN = 50
const SALES_PROVIDER = 'provider_12'
const POLL_MS = 1_000
const ALERT_EVERY_MS = 400
/** The role makes one every two minutes. */
const SUMMARY_LIMIT_MS = 300_000
const PLENTY = { most: 1_000_000, mostInAll: 1_000_000 }

/** Opens a scenario, in which nothing is published yet; all roles but ingest are starting when it resolves. */
export async function openPlatformScenario(platform: TestPlatform, random: SeededRandom, options: ScenarioOptions) {
  const kafka = platform.connect()
  const look = await platform.openLagReader()
  const database = platform.openDatabase({ connections: 8, statementLimitMs: 30_000 })
  const receiver = await openReceiver()
  receiver.answerWith((response, _request, n) => {
    response.writeHead(n % REFUSED_ONE_IN === 0 ? 503 : 200).end()
  })
  const mailbox = await openMailbox()
  const size = {
    items: options.items,
    askProviders: ['provider_01', 'provider_02', 'provider_03', 'provider_05', 'provider_07', 'provider_08'],
    bidProviders: ['provider_02', 'provider_03', 'provider_04'],
  }
  const marketplaces = await openMarketplaces(random.branch(), size, SALES_PROVIDER)
  const owners = [
    await openOwner(database, platform.config, [`${receiver.url}/0`]),
    await openOwner(database, platform.config, []),
  ]
  const market = join(platform.config.stateDir, 'market.json')
  writeFileSync(market, marketplaces.marketFile(POLL_MS))
  const roles = startRoles(platform, random.branch(), options, {
    MARKET: market,
    MARKETLOG_TIERS: writeRoomyTiers(platform.config.stateDir),
    MARKETLOG_WEBHOOK_ALLOW: `127.0.0.1:${receiver.port}`,
    MARKETLOG_SMTP_URL: mailbox.url,
  })
  return {
    options,
    platform,
    random,
    kafka,
    database,
    receiver,
    mailbox,
    marketplaces,
    roles,
    owners,
    /** Records that wait for any group; of a log that does not answer, the editions that were served meanwhile wait for it. */
    waiting: openBacklog(look, marketplaces),
    async close(): Promise<void> {
      await roles.stop()
      await marketplaces.close()
      await receiver.close()
      await mailbox.close()
    },
  }
}

/** Keeps a process of each role running, or two. `ingest` starts only when it is asked to, so that clients can be there before the first change. */
function startRoles(
  platform: TestPlatform,
  random: SeededRandom,
  { twice, limitMs: readyLimitMs }: ScenarioOptions,
  environment: Record<string, string>,
) {
  const all: Kept[] = []
  const keep = (role: RoleName): void => {
    const start = () => platform.spawnRole(role, environment)
    const names = twice.includes(role) ? [role, `${role} (second)`] : [role]
    for (const name of names)
      all.push(keepRunning({ name, random: random.branch(), mayEnd: SAYS_WHY, readyLimitMs, start }))
  }
  for (const role of chooseRoles([])) if (role !== 'ingest') keep(role)
  const of = (role: RoleName): readonly Kept[] => all.filter(({ name }) => name.split(' ')[0] === role)
  return {
    all,
    of,
    addresses: (role: RoleName): readonly string[] =>
      of(role).flatMap(one => (one.isReady() ? (one.role()?.address() ?? []) : [])),
    openIngest: () => keep('ingest'),
    async ready(): Promise<void> {
      for (const one of all) await eventually(one.isReady, `${one.name} to be ready`, readyLimitMs)
    },
    async stop(): Promise<void> {
      await Promise.all(all.map(one => one.stop()))
    },
  }
}

function openBacklog(look: LagReader, { served }: Marketplaces): () => Promise<number> {
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

async function makeAlerts({ database, owners }: PlatformScenario, alerts: readonly NewAlert[]): Promise<PlainRule[]> {
  const made: PlainRule[] = []
  for (const alert of alerts) {
    const owner = owners[alert.item_id % owners.length]?.id ?? ''
    const [one] = await createAlerts(database, owner, [alert], { ...PLENTY, now: Date.now() })
    if (one) made.push({ id: one.id, itemId: one.item_id, kind: one.kind, threshold: one.threshold_value })
  }
  return made
}

const isRelayed =
  ({ database }: PlatformScenario) =>
  async (): Promise<boolean> =>
    (await rulesToRelay(database)) === 0

/** Opens ingest, once rules and clients are there; resolves when every client has received changes. */
export async function startScenario(scenario: PlatformScenario) {
  const { roles, marketplaces, random, options, platform } = scenario
  await roles.ready()
  const wanted = Array.from({ length: RULES }, () => alertNear(random, random.pick(marketplaces.items)))
  /** About prices to come; the log held them before the first of these. */
  const rules = await makeAlerts(scenario, wanted)
  await eventually(isRelayed(scenario), 'the rules to be relayed')
  const listeners = await listen(scenario)
  roles.openIngest()
  await roles.ready()
  const isUnderWay = () => listeners.every(({ client }) => client.rows().length > 0)
  await eventually(isUnderWay, 'every client to receive changes', options.limitMs)
  const own = random.branch()
  const address = (): string | undefined => {
    const ready = roles.addresses('api')
    return ready.length === 0 ? undefined : own.pick(ready)
  }
  const itemIds = marketplaces.items.map(({ itemId }) => itemId)
  const reader = startPriceReader({ key: await platform.newKey(), itemIds, address, random: own })
  return { rules, listeners, reader, endAlerts: makeAlertsMeanwhile(scenario) }
}

/** Makes alerts that hold as soon as the item has an ask, until it is ended; what it returns resolves with those that were made. */
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

/** Clients of the feeds, with the changes that each is to receive. */
async function listen({ marketplaces, platform, roles, random }: PlatformScenario) {
  const some = new Set(marketplaces.items.slice(0, 40).map(({ itemId }) => itemId))
  const ids = [...some].map(id => `&item_ids=${id}`).join('')
  const isAsk = ({ side }: ExpectedChange) => side === 'ask'
  const kinds: [path: string, isDelivered: (change: ExpectedChange) => boolean][] = [
    ['prices?resume=true', isAsk],
    ['bids?resume=true', change => !isAsk(change)],
    ['prices?resume=true&providers=provider_03', change => isAsk(change) && change.provider === 'provider_03'],
    [`prices?resume=true${ids}`, change => isAsk(change) && some.has(change.item_id)],
  ]
  const opened = kinds.map(async ([path, isDelivered]) => {
    const key = await platform.newKey()
    const gateways = () => roles.addresses('feed')
    const client = await openResumingClient({ path: `/v1/feed/${path}`, key, random: random.branch(), gateways })
    return { client, isDelivered }
  })
  return Promise.all(opened)
}

/** Resolves when every view, client and destination has what the marketplaces served last; the clients are stopped then. */
export async function drainScenario(scenario: PlatformScenario, load: ScenarioLoad): Promise<DrainedScenario> {
  const { marketplaces, roles, platform, database, kafka, options } = scenario
  const { limitMs } = options
  const views = () => platform.drained(undefined, limitMs)
  const made = await load.endAlerts()
  await marketplaces.settle(limitMs)
  for (const ingest of roles.of('ingest')) await ingest.stop()
  await views()
  await eventually(isRelayed(scenario), 'the rules to be relayed', limitMs)
  await views()
  await eventually(async () => (await deliveriesLeft(database)) === 0, 'the deliveries to be settled', limitMs)
  // By the process that has followed the market so far.
  const [since, key] = [Date.now(), await platform.newKey()]
  const isSummarised = async (): Promise<boolean> => {
    const [base] = roles.addresses('api')
    return base !== undefined && ((await readSummary(base, key))?.asOf ?? 0) > since
  }
  await eventually(isSummarised, 'a summary of the last prices', SUMMARY_LIMIT_MS)

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

export async function stopClients({ listeners, reader, endAlerts }: ScenarioLoad): Promise<void> {
  await Promise.all([reader.stop(), endAlerts(), ...listeners.map(({ client }) => client.stop())])
}
