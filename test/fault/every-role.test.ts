/**
 * Every role under kill, one after the other, on a market that is polled, judged, viewed, summarised, watched and sold.
 *
 * Marketplaces answer ingest over HTTP; every role runs as a process of its own and is killed with SIGKILL in its
 * turn, again and again, and started again as a supervisor would. Clients of the feeds come back with Last-Event-ID to
 * a gateway that lives, clients of the API read on, alerts are made and fire. Then all is drained and everything that
 * anybody wrote or told is held against a reference fold of the observations.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { createAlerts, type NewAlert } from '#services/accounts/alerts.ts'
import { createAccountWithKey } from '#services/accounts/create-key.ts'
import { createWebhook } from '#services/accounts/webhooks.ts'
import { waitForViews } from '#services/cli/wait-for-views.ts'
import { openReceiver, type Receiver } from '#test/fixtures/webhook-receiver.ts'
import { eventually } from '#test/harness/eventually.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'
import { expectBalanced, type Ledger, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { type Expected, type ExpectedChange, foldRefreshes } from '#test/harness/reference-fold.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import {
  deliveriesLeft,
  eventRows,
  hookEntries,
  lastRules,
  type Owner,
  receivedBy,
  rulesToRelay,
  storedRules,
} from './alert-ledgers.ts'
import { entryOfTrigger, expectedTriggers, type PlainRule } from './alert-truth.ts'
import { bookLedgers } from './book-ledgers.ts'
import { READY_LIMIT_MS } from './keep-running.ts'
import { givenOf } from './market-records.ts'
import { type Marketplaces, openMarketplaces } from './marketplaces.ts'
import { askPrices, type PriceReader, shownPrice, shownText, startPriceReader, wrongRows } from './price-reader.ts'
import { entryOfTold, openResumingClient, type ResumingClient } from './resuming-client.ts'
import type { MarketItem, ScriptedRefresh } from './scripted-market.ts'
import { editionLedger, healthLedger, ratesLedger, salesLedgers, summaryLedger } from './side-ledgers.ts'
import { type StrikeReport, strikeInTurn } from './strike-in-turn.ts'
import { readRefreshesOfLog } from './told-refreshes.ts'
import { liveLedgers, tableLedgers } from './view-ledgers.ts'
import { startWholePlatform, type WholePlatform } from './whole-platform.ts'

const IS_LONG = process.env.FAULT === 'long'
/** The short run strikes each process once. */
const KILLS = Number(process.env.KILLS ?? (IS_LONG ? 200 : 15))
const ITEMS = Number(process.env.ITEMS ?? (IS_LONG ? 600 : 150))
const RULES = 120
const SIZE = {
  items: ITEMS,
  askProviders: ['provider_01', 'provider_02', 'provider_03', 'provider_05', 'provider_07', 'provider_08'],
  bidProviders: ['provider_02', 'provider_03', 'provider_04'],
}
const SALES_PROVIDER = 'provider_12'
const POLL_MS = 1_000
const PAUSE_MS: readonly [number, number] = IS_LONG ? [300, 3_000] : [100, 900]
const ARRIVES_MS = 60_000
const DRAIN_LIMIT_MS = 180_000
const PLENTY = { most: 1_000_000 }

describe('every role under kill', function () {
  this.timeout(300_000 + KILLS * 15_000)
  const place = useServers()
  let kafka: KafkaConnection
  let database: Database
  let receiver: Receiver
  let marketplaces: Marketplaces
  let platform: WholePlatform
  let random: SeededRandom
  let owner: Owner
  const toStop: { stop(): Promise<void> }[] = []

  before(async () => {
    const { config, log } = place
    random = seededRandom('every role under kill')
    kafka = connectKafka({ config, role: 'test', log })
    const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
    database = openDatabase(url, { name: 'test', log, connections: 8, statementLimitMs: 30_000 })
    receiver = await openReceiver()
    marketplaces = await openMarketplaces(newRandom(), SIZE, SALES_PROVIDER)
    platform = startWholePlatform(place, newRandom(), {
      market: marketplaces.marketFile(POLL_MS),
      environment: { MARKETLOG_WEBHOOK_ALLOW: `127.0.0.1:${receiver.port}` },
    })
    owner = await openOwner()
  })
  after(async () => {
    await Promise.all(toStop.map(one => one.stop()))
    await platform?.stop()
    await marketplaces?.close()
    await receiver?.close()
    await database?.close()
  })
  const newRandom = () => randomOf(random.integer(0, 2 ** 31))

  /** An account whose alerts reach one destination. */
  async function openOwner(): Promise<Owner> {
    const { account_id: id } = await createAccountWithKey(database, { tier: 'quant' })
    await database.rows('UPDATE accounts SET alert_emails_off_at = now() WHERE id = $1', [id])
    const box = openSealedBox(place.config.secretKey ?? '')
    const body = { label: 'test', url: `${receiver.url}/0`, platform: 'custom', is_active: true } as const
    const hook = await database.transaction(query =>
      createWebhook(query, { accountId: id, now: Date.now() }, body, box),
    )
    return { id, hooks: [hook.id], getsMail: false }
  }

  async function makeAlerts(alerts: readonly NewAlert[]): Promise<PlainRule[]> {
    const made = await createAlerts(database, owner.id, alerts, { ...PLENTY, now: Date.now() })
    return made.map(({ id, itemId, kind, thresholdValue }) => ({ id, itemId, kind, threshold: thresholdValue }))
  }

  /** Rules about the prices to come; the log holds them before the first of these. */
  async function makeRules(): Promise<PlainRule[]> {
    const wanted = Array.from({ length: RULES }, () => someAlert(random, random.pick(marketplaces.items)))
    const rules = await makeAlerts(wanted)
    await eventually(async () => (await rulesToRelay(database)) === 0, ARRIVES_MS, 'the rules to be relayed')
    return rules
  }

  /** Makes alerts that hold as soon as anybody asks a price, until told to end. */
  function makeAlertsMeanwhile(): { end(): Promise<PlainRule[]> } {
    const made: PlainRule[] = []
    const ending = new AbortController()
    const run = async (): Promise<void> => {
      while (!ending.signal.aborted) {
        const { itemId, name: marketHashName } = random.pick(marketplaces.items)
        const sure = { kind: 'price_above', thresholdValue: '0.00000001', thresholdCurrency: 'USD' } as const
        made.push(...(await makeAlerts([{ ...sure, itemId, marketHashName, phase: null, isEnabled: true }])))
        await pause(400, undefined, { signal: ending.signal }).catch(() => undefined)
      }
    }
    const running = run()
    running.catch(() => undefined)
    return {
      async end() {
        ending.abort()
        await running
        return made
      },
    }
  }

  interface Listener {
    client: ResumingClient
    isTold(change: ExpectedChange): boolean
  }

  async function listen(): Promise<Listener[]> {
    const some = new Set(marketplaces.items.slice(0, 40).map(({ itemId }) => itemId))
    const ids = [...some].map(id => `&item_ids=${id}`).join('')
    const kinds: [path: string, isTold: Listener['isTold']][] = [
      ['prices?resume=true', ({ side }) => side === 'ask'],
      ['bids?resume=true', ({ side }) => side === 'bid'],
      ['prices?resume=true&providers=provider_03', change => isOf(change, 'ask', 'provider_03')],
      [`prices?resume=true${ids}`, ({ side, item_id }) => side === 'ask' && some.has(item_id)],
    ]
    const opened = kinds.map(async ([path, isTold]) => {
      const { key } = await createAccountWithKey(database, { tier: 'quant' })
      const gateways = () => platform.addresses('feed')
      const client = await openResumingClient({ path: `/v1/feed/${path}`, key, random: newRandom(), gateways })
      toStop.push(client)
      return { client, isTold }
    })
    return Promise.all(opened)
  }

  async function readPrices(): Promise<PriceReader> {
    const { key } = await createAccountWithKey(database, { tier: 'quant' })
    const itemIds = marketplaces.items.map(({ itemId }) => itemId)
    const reader = startPriceReader({
      ...{ key, itemIds, random: newRandom() },
      address: () => platform.addresses('api')[0],
    })
    toStop.push(reader)
    return reader
  }

  /** All asks as the API tells them, item by item. */
  async function answeredLedger({ books }: Expected): Promise<Ledger> {
    const { key } = await createAccountWithKey(database, { tier: 'quant' })
    const told: LedgerEntry[] = []
    const base = await eventually(() => platform.addresses('api')[0], READY_LIMIT_MS, 'the API')
    for (const { itemId } of marketplaces.items) {
      const rows = await askPrices(base, key, itemId)
      told.push(...(rows.rows ?? []).map(row => ({ key: `ask|${row.provider}|${itemId}`, what: shownText(row) })))
    }
    const asks = [...books].filter(([book]) => book.startsWith('ask'))
    const wanted = asks.flatMap(([book, rows]) =>
      [...rows].map(([itemId, row]) => ({
        key: `${book}|${itemId}`,
        what: shownText({
          ...row,
          price: shownPrice(row.price, row.currency, row.price_micro_usd),
          seenAt: row.seen_at,
        }),
      })),
    )
    return openLedger(wanted, told)
  }

  /** Resolves when every view, client and destination has what the marketplaces told last. */
  async function drained(): Promise<void> {
    await marketplaces.settle(READY_LIMIT_MS)
    await platform.one('ingest').stop()
    await waitForViews(place.config, place.log, { signal: AbortSignal.timeout(DRAIN_LIMIT_MS) })
    const isRelayed = async () => (await rulesToRelay(database)) === 0
    await eventually(isRelayed, DRAIN_LIMIT_MS, 'the rules to be relayed')
    await waitForViews(place.config, place.log, { signal: AbortSignal.timeout(DRAIN_LIMIT_MS) })
    await eventually(async () => (await deliveriesLeft(database)) === 0, DRAIN_LIMIT_MS, 'the deliveries to be settled')
    await summarised(Date.now())
  }

  /** A process that starts summarises at once; its lease may still be that of a killed one. */
  async function summarised(since: number): Promise<void> {
    await platform.one('market-summary').stop()
    const last = await place.spawnRole('market-summary')
    const isSummarised = async () =>
      (await readTopic(kafka, 'summaries')).some(
        ({ event, value }) => event === 'MarketSummarised' && value.as_of > since,
      )
    await eventually(isSummarised, ARRIVES_MS, 'a summary of the last prices')
    await last.stop()
  }

  async function viewLedgers(refreshes: readonly ScriptedRefresh[], expected: Expected) {
    const { servers, namespace } = place.config
    const redis = await openRedis(servers.redis, { name: 'test', log: place.log })
    const reader = openReader(servers.clickhouseReadOnly, { database: databaseName(namespace), name: 'test' })
    try {
      return {
        ...(await liveLedgers(redis, namespace, expected)),
        ...(await tableLedgers(reader, expected)),
        ...(await salesLedgers(reader, marketplaces.sales)),
        'provider health': await healthLedger(redis, namespace, refreshes, expected),
        'exchange rates': await ratesLedger(redis, kafka, namespace),
        'prices by the API': await answeredLedger(expected),
        'market summary': await summaryLedger(kafka, expected),
      }
    } finally {
      await closeRedis(redis)
      await reader.close()
    }
  }

  async function alertLedgers(rules: readonly PlainRule[], made: readonly PlainRule[], { books }: Expected) {
    const changes = await readTopic(kafka, 'bookChanges')
    const triggers = expectedTriggers(
      rules,
      changes.flatMap(({ event, value }) => (event === 'BookChanged' ? [value] : [])),
    )
    const asked = new Set([...books].flatMap(([key, rows]) => (key.startsWith('ask') ? [...rows.keys()] : [])))
    const unsure = new Set(made.filter(({ itemId }) => !asked.has(itemId)).map(({ id }) => id))
    const sure = made.filter(({ id }) => !unsure.has(id))
    const events = await eventRows(database)
    const early = new Set(rules.map(({ id }) => id))
    // A trigger may be written again after a kill, then with the same words.
    const written = new Map(
      (await readTopic(kafka, 'alertsTriggered'))
        .map(({ value }) => entryOfTrigger(value))
        .filter(({ key }) => early.has(key))
        .map(entry => [`${entry.key} ${entry.what}`, entry]),
    )
    return {
      'alert triggers': openLedger(triggers, written.values()),
      'alerts and their events': openLedger(
        [...triggers.map(({ key }) => key), ...sure.map(({ id }) => id)].map(key => ({ key, what: 'fired' })),
        events.filter(event => !unsure.has(event.alert_id)).map(event => ({ key: event.alert_id, what: 'fired' })),
      ),
      'events and destinations': openLedger(hookEntries([owner], events), receivedBy([receiver])),
      'rules in the log and alerts': openLedger(await storedRules(database), await lastRules(kafka)),
    }
  }

  it('loses, doubles, invents and misplaces nothing anywhere', async () => {
    await platform.ready()
    const rules = await makeRules()
    const listeners = await listen()
    platform.open()
    await platform.ready()
    const isUnderWay = () => listeners.every(({ client }) => client.rows().length > 0)
    await eventually(isUnderWay, ARRIVES_MS, 'every client to be told of changes')
    const reader = await readPrices()
    const alerts = makeAlertsMeanwhile()

    const report = await strikeInTurn(newRandom(), platform.all, {
      ...{ kills: KILLS, pauseMs: PAUSE_MS },
      // Refreshes that have just been fetched are on their way through the log.
      isUnderLoad: () => marketplaces.quietMs() < POLL_MS,
    })
    const made = await alerts.end()
    await drained()

    const catalog = await openCatalogReader(kafka)
    const refreshes = await readRefreshesOfLog(kafka, name => catalog.idOf(name, null))
    await catalog.close()
    const expected = foldRefreshes(refreshes.map(givenOf))
    await eventually(
      () => {
        for (const { client, isTold } of listeners)
          expect(client.rows().length, client.path).to.be.at.least(expected.changes.filter(isTold).length)
        return true
      },
      ARRIVES_MS,
      'every client to be told of the last changes',
    )
    await reader.stop()
    for (const { client } of listeners) await client.stop()

    const clients: Record<string, Ledger> = {}
    for (const { client, isTold } of listeners) {
      clients[`client of ${client.path.slice(9, 60)}`] = openLedger(
        expected.changes.filter(isTold).map(entryOfTold),
        client.rows(),
      )
    }
    tellStory({ report, refreshes, expected, reader, listeners, platform, made: made.length })
    expectBalanced({
      'editions told and logged': editionLedger(marketplaces.told, refreshes),
      ...(await bookLedgers(kafka, refreshes, IS_LONG ? findJavaReader() : undefined)).ledgers,
      ...(await viewLedgers(refreshes, expected)),
      ...clients,
      ...(await alertLedgers(rules, made, expected)),
    })
    expect(
      wrongRows(reader.rows, expected.changes).slice(0, 5),
      'prices that the API should not have told',
    ).to.deep.equal([])
    expect([...reader.statuses.keys()].filter(status => ![0, 200, 503].includes(status))).to.deep.equal([])
    expect(reader.rows.length).to.be.above(0)
    for (const { client } of listeners) expect(new Set(client.notices())).to.deep.equal(new Set(['ready']))
    expect(refreshes.filter(({ ending }) => ending === 'lossy')).to.deep.equal([])
    if (KILLS >= platform.all.length) expect([...report.kills].filter(([, kills]) => kills === 0)).to.deep.equal([])
    expect(report.underLoad, 'blows under load').to.be.above(KILLS / 3)
  })
})

const isOf = (change: ExpectedChange, side: string, provider: string): boolean =>
  change.side === side && change.provider === provider

/** An alert with a threshold near an item's prices. */
function someAlert(random: SeededRandom, { itemId, name, prices }: MarketItem): NewAlert {
  const kind = random.pick(['price_below', 'price_above', 'spread_exceeds'] as const)
  const about = (random.pick(prices) * random.integer(70, 130)) / 10_000
  const threshold = kind === 'spread_exceeds' ? random.integer(100, 3_000) / 100 : Math.max(0.01, about)
  return {
    ...{ itemId, kind, marketHashName: name, phase: null, isEnabled: true },
    thresholdValue: threshold.toFixed(2),
    thresholdCurrency: kind === 'spread_exceeds' ? null : 'USD',
  }
}

function tellStory(told: {
  report: StrikeReport
  refreshes: readonly ScriptedRefresh[]
  expected: Expected
  reader: PriceReader
  listeners: readonly { client: ResumingClient }[]
  platform: WholePlatform
  made: number
}): void {
  const { report, refreshes, expected, reader, listeners, platform, made } = told
  const blows = [...report.kills].map(([name, kills]) => `${name} ${kills}`).join(', ')
  const ended = platform.all.reduce((sum, one) => sum + one.endedByThemselves(), 0)
  const kinds = Object.entries(Object.groupBy(refreshes, ({ ending }) => ending)).map(
    ([ending, of]) => `${of.length} ${ending}`,
  )
  const observations = refreshes.reduce((sum, { entries }) => sum + entries.length, 0)
  const statuses = [...reader.statuses].map(([status, count]) => `${count} x ${status || 'none'}`).join(', ')
  const streams = listeners.map(({ client }) => client.connections()).join(' + ')
  for (const line of [
    `${KILLS} kills in ${report.seconds} s, ${report.underLoad} under load, ${report.early} of processes not yet ready`,
    `${blows}; ${ended} ended by themselves`,
    `${observations} observations in ${refreshes.length} refreshes (${kinds.join(', ')}), ${expected.changes.length} changes`,
    `${RULES} + ${made} alerts; ${streams} streams; ${reader.rows.length} rows read, answers: ${statuses}`,
  ]) {
    console.log(`      ${line}`)
  }
}
