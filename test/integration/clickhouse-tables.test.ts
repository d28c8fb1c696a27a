/**
 * The tables of a server that an earlier version made: set-up adds what they lack while that version goes on writing.
 */
import { expect } from 'chai'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import { planTables, setUpClickhouse, UnfitTable } from '#infra/clickhouse/set-up-tables.ts'
import type { Table } from '#infra/clickhouse/table.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { fxDays } from '#streams/fx/table.ts'
import { TABLES } from '#streams/views.ts'
import { useServers } from '#test/harness/use-servers.ts'

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
  const platform = useServers({ setUp: false })
  let writer: ClickhouseWriter

  before(async () => {
    const { config } = platform
    writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'test' })
    await setUpClickhouse(writer, [...TABLES, older])
  })
  after(() => writer.close())

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
