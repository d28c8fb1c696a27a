/**
 * Puts rebuilt tables in the place of the old ones while the role goes on writing, and finishes what a kill cut off.
 *
 * States of a view: no switch → noted (how far the new tables reach, and their UUIDs) → exchanged → finished (noted as
 * done). Each exchange is atomic for readers. The role knows nothing of it: it writes by name, before and after. What
 * it wrote to the old tables beyond the noted reach is read from the log again after the exchange; all of that was
 * in the log by then, and views that merge by offset take it twice without harm. Invariant: between exchange and finish
 * the note is there, and the role (within seconds) or the next rebuild finds it and finishes.
 */
import type { ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import { onCluster } from '#infra/clickhouse/table.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { type Reached, type SweepParts, sweep } from './table-sweep.ts'
import type { TableView } from './view.ts'
import { selectViewSwitch, type ViewSwitchRow, viewSwitches } from './view-switches.ts'

/** The name under which a rebuild builds a table; no two rebuilds share one. */
export const shadowOf = (table: string, rebuild: string): string => `${shadowsOf(table)}${rebuild}`

/** How the names of all shadows of a table begin. */
export const shadowsOf = (table: string): string => `${table}_shadow_`

/** Exchanges the tables of a view with their shadows and reads again what came meanwhile; resolves with those records. */
export async function switchTables(
  parts: SweepParts & { reader: RangeReader },
  rebuild: string,
  reached: Reached,
): Promise<number> {
  const { view, writer } = parts
  const names = view.tables.map(({ table }) => table.name)
  const shadows = names.map(name => shadowOf(name, rebuild))
  const uuids = await uuidsOf(writer, shadows)
  await note(writer, view, { reached: JSON.stringify(reached), tables: [...uuids.values()], is_done: false })
  for (const name of names) {
    const [live, shadow] = [name, shadowOf(name, rebuild)].map(each => `${writer.database}.${each}`)
    await writer.command(`EXCHANGE TABLES ${live} AND ${shadow}${onCluster(writer.cluster)}`)
  }
  return finishWith(parts, reached)
}

/** Finishes a switch that was cut off after its exchange; resolves with the records that were read again. */
export async function finishSwitch(parts: SweepParts): Promise<number> {
  const { view, kafka, writer } = parts
  const found = await lastSwitch(writer, view)
  if (found === undefined || found.is_done) return 0
  const names = view.tables.map(({ table }) => table.name)
  const inPlace = [...(await uuidsOf(writer, names)).values()]
  // Not exchanged: the old tables are in use and lack nothing.
  if (!found.tables.some(uuid => inPlace.includes(uuid))) return 0
  const reader = await openRangeReader(kafka, view.topics.map(kafka.topicName))
  try {
    return await finishWith({ ...parts, reader }, JSON.parse(found.reached) as Reached)
  } finally {
    await reader.close()
  }
}

async function finishWith(parts: SweepParts & { reader: RangeReader }, reached: Reached): Promise<number> {
  const swept = await sweep(parts, reached)
  await note(parts.writer, parts.view, { reached: JSON.stringify(swept.reached), tables: [], is_done: true })
  return swept.records
}

async function lastSwitch(writer: ClickhouseWriter, { name }: TableView): Promise<ViewSwitchRow | undefined> {
  const [row] = await writer.rows<ViewSwitchRow>(selectViewSwitch(writer.database), { view: name })
  return row
}

async function note(
  writer: ClickhouseWriter,
  view: TableView,
  { reached, tables, is_done }: Omit<ViewSwitchRow, 'version'>,
): Promise<void> {
  const version = ((await lastSwitch(writer, view))?.version ?? 0) + 1
  const rows = new RowBuffer(viewSwitches)
  rows.text(view.name)
  rows.text(reached)
  rows.length(tables.length)
  for (const uuid of tables) rows.text(uuid)
  rows.bool(is_done)
  rows.i64(version)
  rows.endRow()
  const chunks = rows.take().map(({ bytes }) => bytes)
  const columns = Object.keys(viewSwitches.columns)
  await writer.insert({ table: viewSwitches.name, columns, chunks, token: `${view.name}-${version}-${is_done}` })
}

/** The UUIDs of tables that exist, by name. */
async function uuidsOf(writer: ClickhouseWriter, names: readonly string[]): Promise<Map<string, string>> {
  const rows = await writer.rows<{ name: string; uuid: string }>(
    `SELECT name, toString(uuid) AS uuid FROM system.tables
    WHERE database = {database:String} AND name IN {names:Array(String)}`,
    { database: writer.database, names },
  )
  return new Map(rows.map(({ name, uuid }) => [name, uuid]))
}
