/** Everything that was written or delivered in a scenario, beside a reference fold of what the marketplaces served. */
import { expect } from 'chai'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { JavaReader } from '#test/harness/java-reader.ts'
import { expectBalanced, type Ledger, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { entriesOfReading, type ReadRecord, readByJava, readTopic } from '#test/harness/read-topic.ts'
import {
  entryOfTrigger,
  eventRows,
  expectedTriggers,
  expectRecorded,
  hookEntries,
  lastRules,
  mailEntries,
  mailsOf,
  receivedBy,
  storedRules,
} from './alert-ledgers.ts'
import { bookLedgers } from './book-ledgers.ts'
import type { Disturbance } from './keep-running.ts'
import { type DrainedScenario, type PlatformScenario, RULES, type ScenarioLoad } from './platform-scenario.ts'
import { askPrices, expectAvailable, shownPrice, shownText, wrongRows } from './price-reader.ts'
import { entryOfDelivered } from './resuming-client.ts'
import { editionLedger, marketLedgers, readSummary, summaryLedger } from './side-ledgers.ts'

/** A freeze of 15 s, or a kill, two pauses before a start, and the start on a machine that the whole platform shares. */
const AWAY_S = 60
const REFUSED_MOST = 0.2

interface FinishedScenario extends DrainedScenario {
  test: string
  scenario: PlatformScenario
  load: ScenarioLoad
  /** Kafka's own client, where it reads the topics too. */
  java: JavaReader | undefined
  /** Topics that it reads beside those of the book. */
  javaTopics: readonly TopicKey[]
  disturbances: readonly Disturbance[]
}

/** Holds all of it against the fold; nothing may be lost, doubled, invented or out of order. */
export async function expectPlatformBalanced(finished: FinishedScenario): Promise<void> {
  const { test, scenario, load, refreshes, expected, java } = finished
  const { kafka, marketplaces, options } = scenario
  const clients = load.listeners.map(({ client, isDelivered }) => [
    `client of ${client.path.slice(9, 60)}`,
    openLedger(expected.changes.filter(isDelivered).map(entryOfDelivered), client.rows()),
  ])
  printSummary(finished)
  expectBalanced({
    'editions served and logged': editionLedger(marketplaces.served, refreshes),
    ...(await bookLedgers(kafka, refreshes, java)),
    ...(await viewLedgers(finished)),
    ...Object.fromEntries(clients),
    ...(await alertLedgers(finished)),
    ...(await javaLedgers(finished)),
  })
  expect(
    wrongRows(load.reader.rows, expected.changes).slice(0, 5),
    'prices that the API should not have answered',
  ).to.deep.equal([])
  expectAvailable(test, load.reader, { leastRows: options.items, awayS: AWAY_S, refused: REFUSED_MOST })
  for (const { client } of load.listeners) expect(new Set(client.notices())).to.deep.equal(new Set(['ready']))
  expect(refreshes.filter(({ ending }) => ending === 'lossy')).to.deep.equal([])
  await expectRecorded(scenario.database, scenario.receiver)
}

async function viewLedgers({ scenario, refreshes, expected }: FinishedScenario) {
  const { platform, kafka, marketplaces } = scenario
  const stores = { redis: await platform.openRedis(), tables: platform.openTables() }
  return {
    ...(await marketLedgers(kafka, stores, { refreshes, expected, sales: marketplaces.sales })),
    ...(await answeredLedgers(scenario, expected)),
  }
}

async function answeredLedgers(scenario: PlatformScenario, expected: DrainedScenario['expected']) {
  const { platform, roles, marketplaces, options } = scenario
  const key = await platform.newKey()
  const answered: LedgerEntry[] = []
  const base = await eventually(() => roles.addresses('api')[0], 'the API', options.limitMs)
  for (const { itemId } of marketplaces.items) {
    const rows = await askPrices(base, key, itemId)
    answered.push(...(rows.rows ?? []).map(row => ({ key: `ask|${row.provider}|${itemId}`, what: shownText(row) })))
  }
  const asks = [...expected.books].filter(([book]) => book.startsWith('ask'))
  const wanted = asks.flatMap(([book, rows]) =>
    [...rows].map(([itemId, row]) => {
      const price = shownPrice(row.price, row.currency, row.price_micro_usd)
      return { key: `${book}|${itemId}`, what: shownText({ ...row, price, seenAt: row.seen_at }) }
    }),
  )
  const summary = (await readSummary(base, key))?.items ?? []
  return {
    'prices by the API': openLedger(wanted, answered),
    'market summary': summaryLedger(summary, expected),
  }
}

async function alertLedgers({ scenario, load, made, expected, disturbances }: FinishedScenario) {
  const { kafka, database, owners, receiver, mailbox } = scenario
  const { rules } = load
  const changes = await readTopic(kafka, 'bookChanges')
  const asked = new Set([...expected.books].flatMap(([key, rows]) => (key.startsWith('ask') ? [...rows.keys()] : [])))
  const unsure = new Set(made.filter(({ itemId }) => !asked.has(itemId)).map(({ id }) => id))
  const sure = made.filter(({ id }) => !unsure.has(id))
  const events = await eventRows(database)
  const early = new Set(rules.map(({ id }) => id))
  const written = (await readTopic(kafka, 'alertsTriggered')).filter(({ value }) => early.has(value.alert_id))
  const triggers = expectedTriggers(
    rules,
    changes.flatMap(({ event, value }) => (event === 'BookChanged' ? [value] : [])),
    written.map(({ value }) => value),
  )
  return {
    'alert triggers': openLedger(triggers, withoutRepeats(written, disturbances)),
    'alerts and their events': openLedger(
      [...triggers.map(({ key }) => key), ...sure.map(({ id }) => id)].map(key => ({ key, what: 'fired' })),
      events.filter(event => !unsure.has(event.alert_id)).map(event => ({ key: event.alert_id, what: 'fired' })),
    ),
    'events and destinations': openLedger(hookEntries(owners, events), receivedBy(receiver)),
    'events and mails': openLedger(mailEntries(owners, events), mailsOf(mailbox)),
    'rules in the log and alerts': openLedger(await storedRules(database), await lastRules(kafka)),
  }
}

/** Triggers, but for those that were written again after a process or a broker was harmed meanwhile. */
function withoutRepeats(written: readonly ReadRecord[], disturbances: readonly Disturbance[]): LedgerEntry[] {
  const writtenAt = new Map<string, number>()
  return written.flatMap(({ value, timestamp }) => {
    const entry = entryOfTrigger(value)
    const before = writtenAt.get(entry.key) ?? Number.NaN
    writtenAt.set(entry.key, timestamp)
    return disturbances.some(({ from, to }) => before <= to && timestamp >= from) ? [] : [entry]
  })
}

async function javaLedgers({ scenario, java, javaTopics }: FinishedScenario): Promise<Record<string, Ledger>> {
  const ledgers: Record<string, Ledger> = {}
  for (const key of java === undefined ? [] : javaTopics) {
    const truth = await readByJava(java as JavaReader, scenario.kafka, key)
    const read = entriesOfReading(await readTopic(scenario.kafka, key))
    ledgers[`${topics[key].name} read by the Java client`] = openLedger(truth.entries, read)
  }
  return ledgers
}

export const endsByThemselves = ({ roles }: PlatformScenario): number =>
  roles.all.reduce((sum, one) => sum + one.endedByThemselves(), 0)

function printSummary({ scenario, load, made, refreshes, expected }: FinishedScenario): void {
  const observations = refreshes.reduce((sum, { entries }) => sum + entries.length, 0)
  const streams = load.listeners.map(({ client }) => client.connections()).join(' + ')
  for (const line of [
    `${endsByThemselves(scenario)} processes ended by themselves`,
    `${observations} observations in ${refreshes.length} refreshes, ${expected.changes.length} changes`,
    `${RULES} + ${made.length} alerts; ${streams} streams; ${load.reader.rows.length} rows read`,
  ])
    console.log(`      ${line}`)
}
