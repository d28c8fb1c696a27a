import { expect } from 'chai'
import { type Batcher, openBatcher, RowBuffer } from '#infra/clickhouse/batcher.ts'
import type { ClickhouseWriter, RowInsert } from '#infra/clickhouse/clickhouse.ts'
import { refuseFormer, setUpClickhouse } from '#infra/clickhouse/table.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { Refused } from '#infra/runtime/refused.ts'
import { fxDays } from '#streams/fx/table.ts'
import { viewPositions } from '#streams/runner/table-versions.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** Beyond the limit of a test: what waits for so long fails. */
const NEVER_MS = 600_000

describe('clickhouse batcher', () => {
  const clickhouse = useClickhouse(useServers({ setUp: false }))
  let day = 1
  let inserts: RowInsert[] = []
  let batcher: Batcher | undefined

  /** The real writer, with a note of every insert; `after` runs when the server has confirmed one. */
  const noting = (after: (insert: RowInsert) => void | Promise<void> = () => {}): ClickhouseWriter => ({
    ...clickhouse.writer,
    database: clickhouse.database,
    async insert(insert) {
      inserts.push(insert)
      await clickhouse.writer.insert(insert)
      await after(insert)
    },
  })
  const open = (writer: ClickhouseWriter, longestWaitMs?: number): Batcher => {
    const options = { metrics: openMetrics() }
    batcher = openBatcher(writer, longestWaitMs === undefined ? options : { ...options, longestWaitMs })
    return batcher
  }
  /** Rows of a day of its own, so that each test counts its own. */
  const rowsOf = (count: number, first = 0): RowBuffer => {
    const rows = new RowBuffer(fxDays)
    for (let i = 0; i < count; i++) {
      rows.add({ day, currency: `C${first + i}`, rate: '1.5', as_of: 1, version: 0 })
    }
    return rows
  }
  const stored = async (): Promise<number> => {
    const table = `${clickhouse.database}.fx_days`
    const query = `SELECT count() AS rows FROM ${table} WHERE day = toDate({day:UInt16})`
    const [row] = await clickhouse.writer.rows<{ rows: number }>(query, { day })
    return row?.rows ?? -1
  }

  beforeEach(() => {
    day += 1
    inserts = []
  })
  afterEach(() => batcher?.close())

  it('inserts what waits of several partitions at once when it is closed, and confirms each when all are there', async () => {
    const own = open(noting(), NEVER_MS)
    const confirmed = [0, 1, 2, 3].map(i => own.add([rowsOf(100, i * 100)]))
    expect(await stored(), 'nothing before its time').to.equal(0)
    void own.close()
    await confirmed[2]
    expect(await stored()).to.equal(400)
    await Promise.all(confirmed)
    expect(inserts).to.have.length(1)
  })

  it('does not wait once 10,000 rows are there, and inserts at most 100,000 at once', async () => {
    const own = open(noting(), NEVER_MS)
    await Promise.all([own.add([rowsOf(9_999)]), own.add([rowsOf(200_001, 9_999)])])
    expect(await stored()).to.equal(210_000)
    expect(inserts).to.have.length(3)
  })

  it('counts the rows of one batch for the next no more', async () => {
    const own = open(noting(), NEVER_MS)
    await own.add([rowsOf(50_000)])
    const small = own.add([rowsOf(1, 50_000)])
    await Promise.all([small, own.add([rowsOf(50_000, 50_001)])])
    expect([await stored(), inserts.length]).to.deep.equal([100_001, 2])
  })

  it('confirms nothing that the server refuses, and goes on with the next batch', async () => {
    const broken = { ...fxDays, name: 'no_such_table' }
    const rows = new RowBuffer(broken)
    rows.add({ day, currency: 'EUR', rate: '1.5', as_of: 1, version: 0 })
    const own = open(noting(), 10)
    expect(String(await own.add([rows]).catch(error => error))).to.match(/no_such_table/)
    await own.add([rowsOf(5)])
    expect(await stored()).to.equal(5)
  })

  it('settles rows that come while an insert is under way', async () => {
    const answer = Promise.withResolvers<void>()
    const slow = noting(() => answer.promise)
    const own = open(slow, 10)
    const first = own.add([rowsOf(60_000)])
    await eventually(() => inserts.length === 1, 'the first insert')
    const second = own.add([rowsOf(3, 60_000)])
    answer.resolve()
    await Promise.all([first, second])
    expect([await stored(), inserts.length]).to.deep.equal([60_003, 2])
  })
})

describe('columns of ClickHouse', () => {
  const clickhouse = useClickhouse(useServers({ setUp: false }))
  /** From a megabyte of answer on the server has sent the beginning of it by itself. */
  const numbers = (expression: string) =>
    clickhouse.writer.columns({
      texts: { text: 'toString(number % 3)' },
      numbers: { number: 'number', checked: expression },
      from: 'FROM numbers(300000) SETTINGS max_block_size = 1000',
    })

  it('are read as they are selected, of many rows', async () => {
    const { text, number, checked } = await numbers('number * 2')
    expect([text.length, number.length, checked.length]).to.deep.equal([300_000, 300_000, 300_000])
    expect([text.at(-1), number.at(-1), checked.at(-1)]).to.deep.equal(['2', 299_999, 599_998])
  })

  it('are none of a query that fails behind its first rows', async () => {
    const failed = await numbers(`throwIf(number = 299999, 'at the end')`).catch((error: Error) => error)
    expect((failed as Error).message).to.include('at the end')
  })
})

describe('set-up of ClickHouse', () => {
  const clickhouse = useClickhouse(useServers({ setUp: false }))

  it('changes nothing when it is repeated', async () => {
    const { writer } = clickhouse
    const tables = () =>
      writer.rows(`SELECT name, uuid FROM system.tables WHERE database = '${clickhouse.database}' ORDER BY name`)
    const before = await tables()
    await setUpClickhouse(writer, [viewPositions])
    expect(await tables()).to.deep.equal(before)
  })

  it('used to be refused table by table: an earlier form of the platform is named, with the command that wipes it', async () => {
    const { writer, database } = clickhouse
    await refuseFormer(writer, ['sales'])
    await writer.command(`CREATE TABLE ${database}.former (day Date) ENGINE = MergeTree ORDER BY day`)
    const refused = await refuseFormer(writer, ['sales', 'former']).catch((error: Error) => error)
    expect(refused).to.be.an.instanceOf(Refused)
    expect((refused as Error).message).to.match(/^former in ClickHouse is of an earlier form .* `make clean` /)
  })
})
