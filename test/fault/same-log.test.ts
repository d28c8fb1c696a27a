/**
 * The same log gives the same bytes: run again from scratch, by other numbers of processes, in other time zones and
 * another language, over event times that cross the changes of their clocks.
 *
 * A log of observations is copied byte for byte into further namespaces; in each, the roles derive everything from the beginning.
 * Then the derived topics are compared record by record, in bytes, and the tables and keys row by row.
 * Alerts are derived twice from one and the same log of changes, a summary of the market twice for one moment.
 */
import { expect } from 'chai'
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { expectBalanced, type Ledger, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { type ReadRecord, readTopic } from '#test/harness/read-topic.ts'
import { randomOf, seededRandom } from '#test/harness/seeded-random.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { readDerivedKeys, readDerivedTables, readDerivedTopics, summaryEntries, triggerEntries } from './derived-log.ts'
import { CLOCK_CHANGES, copyInput, inputLedger, writeInput } from './same-log-input.ts'
import { summariseAt } from './summary-of-moment.ts'

const IS_LONG = process.env.FAULT === 'long'
const SIZE = {
  items: IS_LONG ? 400 : 150,
  askProviders: ['provider_01', 'provider_02', 'provider_03', 'provider_05', 'provider_07'],
  bidProviders: ['provider_02', 'provider_03'],
  refreshes: IS_LONG ? 20 : 6,
  rules: 200,
}
const FEEDS = SIZE.askProviders.length + SIZE.bidProviders.length
/** Rows that are left in the end, at least, of which the bids' candles know nothing. */
const ROWS = (SIZE.items / 2) * FEEDS
const ASK_ROWS = (SIZE.items / 2) * SIZE.askProviders.length
/** The least number of entries of each thing that is derived. */
const LEAST_OF: Readonly<Record<string, number>> = {
  'topic bookChanges': ROWS,
  'topic book': ROWS,
  'topic refreshes': FEEDS * SIZE.refreshes,
  'topic quarantine': 1,
  'topic unresolved': FEEDS,
  'topic deadLetters': 3 * FEEDS,
  'table changes': ROWS,
  'table provider_days': ROWS,
  'table candle_parts': ASK_ROWS,
  'table candle_standing': ASK_ROWS,
  'table sales': 50,
  'table sales_by_time': 50,
  'table fx_days': CLOCK_CHANGES.length,
  'live rows': ROWS,
  'live listings': ROWS,
  'live refresh times': FEEDS,
  'provider health': FEEDS - 2,
}
const SINKS = 'history candles sales provider-health fx live-view'

/** How the log is run: where the process believes to be, and how many share the work. */
interface Run {
  zone: string
  language: string
  books: number
}
const FIRST: Run = { zone: 'UTC', language: 'C', books: 1 }
const LAST: Run = { zone: 'America/New_York', language: 'tr_TR.UTF-8', books: 2 }
const RUNS = IS_LONG ? [FIRST, { zone: 'Europe/Berlin', language: 'de_DE.UTF-8', books: 2 }, LAST] : [FIRST, LAST]

describe('the same log', function () {
  this.timeout(IS_LONG ? 900_000 : 240_000)
  const platforms = RUNS.map(() => useServers({ catalog: 'whole' }))
  let kafkas: KafkaConnection[]
  /** A moment at which no provider was down. */
  let asOf: number
  const origin = () => [platforms[0], kafkas[0]] as [TestPlatform, KafkaConnection]

  before('a log and its copies', async () => {
    const random = seededRandom('the same log')
    kafkas = platforms.map(platform => platform.connect())
    const [, first] = origin()
    asOf = await writeInput(first, randomOf(random.integer(0, 2 ** 31)), SIZE)
    for (const copy of kafkas.slice(1)) await copyInput(first, copy)
  })

  /** Runs roles on a platform's log until they have reached its end. */
  async function derive(platform: TestPlatform, { zone, language }: Omit<Run, 'books'>, roles: readonly string[]) {
    const environment = { TZ: zone, LANG: language, LC_ALL: language }
    const running = await Promise.all(roles.map(role => platform.spawnRole(role, environment)))
    const groups = roles.flatMap(role => role.split(' '))
    const without = ['book', 'provisional-items', ...SINKS.split(' '), 'alert-triggers', 'accounts'].filter(
      group => !groups.includes(group),
    )
    await platform.drained(without)
    for (const role of running) await role.stop()
  }

  async function readDerived(platform: TestPlatform, kafka: KafkaConnection): Promise<Record<string, LedgerEntry[]>> {
    const { servers, namespace } = platform.config
    const redis = await platform.openRedis()
    const reader = openReader(servers.clickhouseReadOnly, { database: databaseName(namespace), name: 'test' })
    try {
      return {
        ...(await readDerivedTopics(kafka)),
        ...(await readDerivedTables(reader)),
        ...(await readDerivedKeys(redis, namespace)),
      }
    } finally {
      await reader.close()
    }
  }

  it('crosses the changes of clocks of the zones, in days that are others there', async () => {
    const times = (await readTopic(origin()[1], 'quotes')).map(({ value }) => value.observed_at as number)
    for (const { zone } of RUNS.slice(1)) {
      const offsets = times.map(offsetIn(zone))
      for (const change of CLOCK_CHANGES) {
        expect(times.some(time => time > change - 3_600_000 && time < change)).to.equal(true)
        expect(times.some(time => time >= change && time < change + 3_600_000)).to.equal(true)
      }
      expect(new Set(offsets).size, `offsets of ${zone}`).to.equal(2)
      const [there, here] = [dayIn(zone), dayIn('UTC')]
      expect(
        times.some(time => there(time) !== here(time)),
        `days of ${zone}`,
      ).to.equal(true)
    }
  })

  it('gives the same topics, byte for byte, and the same rows, wherever it is run', async () => {
    await Promise.all(
      RUNS.map((run, at) =>
        derive(platforms[at] as TestPlatform, run, [...Array.from({ length: run.books }, () => 'book'), SINKS]),
      ),
    )
    const [expected = {}, ...others] = await Promise.all(
      kafkas.map((kafka, at) => readDerived(platforms[at] as TestPlatform, kafka)),
    )
    const ledgers: Record<string, Ledger> = {}
    for (const [at, other] of others.entries()) {
      const { zone } = RUNS[at + 1] as Run
      ledgers[`${zone}: its input`] = await inputLedger(origin()[1], kafkas[at + 1] as KafkaConnection, ROWS)
      expect(Object.keys(other)).to.deep.equal(Object.keys(expected))
      for (const [name, entries] of Object.entries(expected)) {
        ledgers[`${zone}: ${name}`] = openLedger(
          entries,
          other[name] ?? [],
          LEAST_OF[name] ?? expect.fail(`${name} promises nothing`),
        )
      }
      const [ours = [], theirs = []] = [expected['topic bookChanges'], other['topic bookChanges']]
      console.log(`      ${zone}: ${wholePartitions(ours, theirs)} partitions of changes are mixed alike, too`)
    }
    expectBalanced(ledgers)
  })

  it('gives the same alerts when they are derived again', async () => {
    const [platform, kafka] = origin()
    await derive(platform, FIRST, ['alert-triggers'])
    const once = await readTopic(kafka, 'alertsTriggered')
    const admin = kafka.newClient('again').admin()
    await admin.connect()
    await admin.deleteGroups([kafka.groupName('alert-triggers')])
    await admin.disconnect()
    await derive(platform, LAST, ['alert-triggers'])
    const both = await readTopic(kafka, 'alertsTriggered')
    const again = both.filter(record => !once.some(one => isSameOffset(one, record)))
    expectBalanced({
      'alerts triggered': openLedger(triggerEntries(once), triggerEntries(again), SIZE.rules / 4),
    })
  })

  it('gives the same summary of the market for one moment', async () => {
    const read: ReadRecord[][] = []
    // One after the other: the zone is that of the whole process.
    for (const run of [FIRST, LAST]) {
      const at = RUNS.indexOf(run)
      const [platform, kafka] = [platforms[at], kafkas[at]] as [TestPlatform, KafkaConnection]
      await summariseAt(platform, kafka, { asOf, zone: run.zone })
      read.push(await readTopic(kafka, 'summaries'))
    }
    const [one = [], other = []] = read
    expectBalanced({ 'topic summaries': openLedger(summaryEntries(one), summaryEntries(other), SIZE.items / 2) })
    expect(one.filter(({ value }) => value.best_ask_micro_usd > 0)).to.have.length.above(0)
    expect(one.filter(({ value }) => value.sales_1d > 0)).to.have.length.above(0)
  })
})

const isSameOffset = (one: { partition: number; offset: number }, other: { partition: number; offset: number }) =>
  one.partition === other.partition && one.offset === other.offset

/** A time's day in a zone. */
const dayIn = (timeZone: string): ((time: number) => string) => {
  const format = new Intl.DateTimeFormat('sv', { timeZone, dateStyle: 'short' })
  return time => format.format(time)
}

/** How far a zone's clocks are from UTC at a time, as `GMT-4`. */
const offsetIn = (timeZone: string): ((time: number) => string) => {
  const format = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'shortOffset' })
  return time => format.formatToParts(time).find(({ type }) => type === 'timeZoneName')?.value ?? ''
}

/** How many partitions of a topic are the same from end to end, whatever their records stem from. */
function wholePartitions(one: readonly LedgerEntry[], other: readonly LedgerEntry[]): string {
  const byPartition = (entries: readonly LedgerEntry[]) => Map.groupBy(entries, ({ key }) => key.split('|')[0])
  const [ours, theirs] = [byPartition(one), byPartition(other)]
  const isSame = ([partition, entries]: [string | undefined, LedgerEntry[]]) =>
    entries.every(({ key, what }, at) => {
      const came = theirs.get(partition)?.[at]
      return came?.key === key && came.what === what
    })
  return `${[...ours].filter(isSame).length} of ${ours.size}`
}
