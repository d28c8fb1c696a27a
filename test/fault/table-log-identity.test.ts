/**
 * Views in ClickHouse whose topic, or whose server, is no longer what it was.
 *
 * What used to happen: rows merged by offset, so those of a topic that was created again lost to older ones; a view had no position of
 * its own, so a server that was set back to an earlier time kept a hole for good.
 */
import { expect } from 'chai'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { readViewPositions } from '#streams/runner/view-positions.ts'
import { openWholeTables } from '#streams/runner/whole-tables.ts'
import { recreateTopic } from '#test/fixtures/changed-topics.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, changed } from '#test/harness/published-records.ts'
import { runCommand } from '#test/harness/run-command.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ITEM = 7
const PARTITION = partitionOfItem(ITEM)
const DAY_MS = 86_400_000
const START = (Math.floor(Date.now() / DAY_MS) - 1) * DAY_MS

describe('views in ClickHouse', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let writer: ClickhouseWriter
  let reader: ReturnType<typeof openWholeTables>
  let roles: StartedRoles
  let published = 0

  before(async () => {
    kafka = platform.connect()
    const { config } = platform
    writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'test' })
    reader = openWholeTables(writer)
    roles = await platform.startRoles(['candles', 'history'])
  })
  after(() => writer.close())

  async function publish(...prices: number[]): Promise<void> {
    const book = await platform.openPublisher(kafka, 'book')
    const records = prices.map(price => {
      published += 1
      const seen_at = START + published * 1_000
      return bookChangeRecord(kafka.codec, changed({ item_id: ITEM, price, price_micro_usd: price * 10_000, seen_at }))
    })
    await book.send(records)
    await book.close()
  }
  const read = <T>(select: string, table: string, rest = '') =>
    reader.rows<T>(`SELECT ${select} FROM ${writer.database}.${table} FINAL WHERE item_id = ${ITEM} ${rest}`)
  /** The newest ask, the day's close and the number of single changes. */
  async function shown(): Promise<unknown[]> {
    const [ask] = await read<{ micro: number }>('micro', 'candle_standing')
    const [day] = await read<{ price: number }>("tupleElement(max(priced), 'price') AS price", 'provider_days')
    const [changes] = await read<{ count: number }>('count() AS count', 'changes')
    return [ask?.micro, day?.price, changes?.count]
  }
  const shows = (...wanted: unknown[]) =>
    eventually(async () => expect(await shown()).to.deep.equal(wanted), `${wanted}`)
  const refusedFor = (table: string, reason: RegExp) =>
    eventually(async () => {
      const refused = await read('1 AS one', table).catch((error: Error) => error)
      return refused instanceof Error && reason.test(refused.message)
    }, `${table} to be refused`)
  const marketlog = async (...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(words, { PATH: process.env.PATH, ...platform.environment })
    expect(code, stderr).to.equal(0)
    return stdout
  }

  it('stop where their topic was created again; once they are rebuilt, its rows win over the older ones', async () => {
    await publish(100, 101, 102, 103, 104)
    await shows(1_040_000, 104, 5)
    await recreateTopic(platform, kafka, 'bookChanges')
    await publish(200)
    for (const table of ['candle_parts', 'candle_standing', 'changes', 'provider_days'])
      await refusedFor(table, /the position is of the topic with id \S+, which was deleted/)
    for (const view of ['candles', 'history']) await marketlog('rebuild', view)
    await shows(2_000_000, 200, 6)
    const stored = (await readViewPositions(writer)).of('candles', { topic: 'bookChanges', partition: PARTITION })
    expect(stored?.position).to.include({ generation: 1, next: 1 })
    await publish(201)
    await shows(2_010_000, 201, 7)
    for (const view of ['candles', 'history']) await marketlog('verify', view)
    expect(roles.failures).to.deep.equal([])
  })

  it('are refused where their server was set back, until they have what they had', async () => {
    const { database } = writer
    const tables = ['view_positions', 'candle_parts', 'candle_standing', 'changes', 'provider_days']
    for (const table of tables) {
      await writer.command(`CREATE TABLE ${database}.old_${table} AS ${database}.${table}`)
      await writer.command(`INSERT INTO ${database}.old_${table} SELECT * FROM ${database}.${table}`)
    }
    await publish(300, 301)
    await shows(3_010_000, 301, 9)
    await roles.stop()
    // Positions are asked for once a second: one that has the last.
    reader = openWholeTables(writer)
    expect(await shown()).to.deep.equal([3_010_000, 301, 9])
    for (const table of tables) {
      await writer.command(`TRUNCATE TABLE ${database}.${table}`)
      await writer.command(`INSERT INTO ${database}.${table} SELECT * FROM ${database}.old_${table}`)
    }
    await refusedFor('candle_standing', /it is at 2, and was at 4/)
    const other = openWholeTables(writer)
    roles = await platform.startRoles(['candles', 'history'])
    await shows(3_010_000, 301, 9)
    expect(await other.rows(`SELECT 1 AS one FROM ${database}.changes LIMIT 1`)).to.deep.equal([{ one: 1 }])
    for (const view of ['candles', 'history']) await marketlog('verify', view)
  })
})
