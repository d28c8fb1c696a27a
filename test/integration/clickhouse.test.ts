/**
 * Writes to a real ClickHouse: few large inserts, nothing confirmed that is not there; and the tables of a server that an earlier
 * version made, to which set-up adds what they lack while that version goes on writing.
 */
import { expect } from 'chai'
import { type Batcher, openBatcher } from '#infra/clickhouse/batcher.ts'
import type { BinaryInsert, ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import { planTables, setUpClickhouse, UnfitTable } from '#infra/clickhouse/set-up-tables.ts'
import type { Table } from '#infra/clickhouse/table.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { fxDays } from '#streams/fx/table.ts'
import { TABLES } from '#streams/views.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** Beyond the limit of a test: what waits for so long fails. */
const NEVER_MS = 600_000

describe('clickhouse batcher', () => {
  const clickhouse = useClickhouse(useServers({ setUp: false }))
  let day = 1
  let inserts: BinaryInsert[] = []
  let batcher: Batcher | undefined

  /** The real writer, with a note of every insert; `after` runs when the server has confirmed one. */
  const noting = (after: (insert: BinaryInsert) => void | Promise<void> = () => {}): ClickhouseWriter => ({
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
      rows.u16(day)
      rows.text(`C${first + i}`)
      rows.text('1.5')
      rows.i64(1)
      rows.endRow()
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

  it('does not wait once 50,000 rows are there, and inserts at most 100,000 at once', async () => {
    const own = open(noting(), NEVER_MS)
    await Promise.all([own.add([rowsOf(49_999)]), own.add([rowsOf(200_001, 49_999)])])
    expect(await stored()).to.equal(250_000)
    expect(inserts).to.have.length(3)
  })

  it('counts the rows of one batch for the next no more', async () => {
    const own = open(noting(), NEVER_MS)
    await own.add([rowsOf(50_000)])
    const small = own.add([rowsOf(1, 50_000)])
    await Promise.all([small, own.add([rowsOf(50_000, 50_001)])])
    expect([await stored(), inserts.length]).to.deep.equal([100_001, 2])
  })

  it('does not wait for more than 10,000 rows when no more are added', async () => {
    const own = open(noting(), NEVER_MS)
    await own.add([rowsOf(10_000)])
    expect(await stored()).to.equal(10_000)
  })

  it('confirms nothing that the server refuses, and goes on with the next batch', async () => {
    const broken = { ...fxDays, name: 'no_such_table' }
    const rows = new RowBuffer(broken)
    rows.u16(day)
    rows.endRow()
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

const older: Table = { ...fxDays, name: 'later_days' }
const newer: Table = {
  ...older,
  isCompact: true,
  columns: { ...pick(older.columns, ['day']), source: "String DEFAULT 'unknown'", ...older.columns, units: 'UInt32' },
}

function pick(columns: Readonly<Record<string, string>>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(columns).filter(([name]) => names.includes(name)))
}

describe('tables of an earlier version', () => {
  const clickhouse = useClickhouse(useServers({ setUp: false }))
  let writer: ClickhouseWriter

  before(async () => {
    writer = clickhouse.writer
    await setUpClickhouse(writer, [older])
  })

  /** An insert as a role of the version before sends it. */
  async function insertOlder(day: number): Promise<void> {
    const rows = new RowBuffer(older)
    rows.u16(day)
    for (const text of ['EUR', '0.5']) rows.text(text)
    rows.i64(1)
    rows.endRow()
    const chunks = rows.take().map(({ bytes }) => bytes)
    await writer.insert({ table: older.name, columns: Object.keys(older.columns), chunks })
  }
  const stored = () =>
    writer.rows(`SELECT toUInt16(day) AS day, source, units FROM ${writer.database}.later_days ORDER BY day`)

  it('are left alone where they are as declared', async () => {
    expect(await planTables(writer, [...TABLES, older])).to.deep.equal([])
    expect(await setUpClickhouse(writer, [...TABLES, older])).to.deep.equal([])
  })

  it('used to fail every insert of a new column: they get it, and the version before goes on writing', async () => {
    await insertOlder(1)
    expect(await setUpClickhouse(writer, [newer])).to.deep.equal([
      `ALTER TABLE ${writer.database}.later_days ADD COLUMN IF NOT EXISTS source String DEFAULT 'unknown' AFTER day, ` +
        'ADD COLUMN IF NOT EXISTS units UInt32 AFTER as_of, MODIFY SETTING min_bytes_for_wide_part = 1125899906842624',
    ])
    await insertOlder(2)
    expect(await stored()).to.deep.equal([1, 2].map(day => ({ day, source: 'unknown', units: 0 })))
    expect(await planTables(writer, [newer])).to.deep.equal([])
  })

  it('keep the columns of a newer version after a rollback', async () => {
    expect(await setUpClickhouse(writer, [older])).to.deep.equal([])
    await insertOlder(3)
    expect(await stored()).to.have.length(3)
  })

  const unfit: [what: string, changes: Partial<Table>, text: string][] = [
    [
      'another type',
      { columns: { ...older.columns, rate: 'Float64' } },
      'later_days: column rate is String on the server and Float64 in this version',
    ],
    ['another order', { orderBy: '(day, currency)' }, 'ORDER BY is currency, day on the server'],
    ['another engine', { engine: 'ReplacingMergeTree' }, 'ReplacingMergeTree(as_of) on the server'],
    ['other partitions', { partitionBy: 'toYYYYMM(day)' }, 'PARTITION BY is toYear(day)'],
    ['other granules', { granularity: 16 }, 'index_granularity is 8192 on the server'],
  ]
  for (const [what, changes, text] of unfit)
    it(`are refused by name with ${what}, and nothing is changed`, async () => {
      const missing: Table = { ...older, name: 'never_made' }
      const refused = await setUpClickhouse(writer, [missing, { ...older, ...changes }]).catch(error => error)
      expect(refused).to.be.instanceOf(UnfitTable).with.property('message').that.includes(text)
      expect(await planTables(writer, [missing])).to.have.length(1)
    })

  it('are refused by name where they are of a form that had no positions', async () => {
    await writer.command(`CREATE TABLE ${writer.database}.view_switches (view String) ENGINE = MergeTree ORDER BY view`)
    const refused = await setUpClickhouse(writer, TABLES).catch((error: Error) => error)
    expect(refused).to.be.an.instanceOf(UnfitTable)
    expect((refused as Error).message).to.match(/^view_switches is of an earlier form .* `make clean` /)
  })
})
