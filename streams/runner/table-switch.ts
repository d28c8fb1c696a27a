/**
 * Puts rebuilt tables in the place of the old ones while their role goes on.
 *
 * States of a view: written by its role -> fenced (its positions name the new tables too and count for both, and the role waits) ->
 * exchanged -> settled (they name the new tables alone, and the role goes on). Each exchange is atomic for readers. Invariant: what is
 * read meanwhile is never less than before; a kill at any moment leaves positions that hold for the tables that are in place, which
 * the role takes over when nothing has followed for a time (positioned-sinks.ts).
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import { onCluster } from '#infra/clickhouse/table.ts'
import { type PartitionLog, positionFrom, rebuiltPosition, type Source, type ViewPosition } from './positions.ts'
import type { Reached } from './table-sweep.ts'
import type { TableView } from './view.ts'
import { countsFor, type NewPosition, readViewPositions, tableText, writeViewPositions } from './view-positions.ts'

/** A partition of the log beside what is stored of it. */
export interface RebuiltSource {
  source: Source
  /** The position that counts for the tables. */
  stored: ViewPosition | undefined
  /** The last one that was written, whether or not it counts. */
  former: ViewPosition | undefined
  log: PartitionLog
}

/** The partitions of a view whose role waits. */
export interface Fenced {
  rebuild: string
  rows: readonly { of: RebuiltSource; written: NewPosition }[]
  /** The new tables, by the names that they are to have. */
  shadows: readonly string[]
}

const TRIES = 200
const PAUSE_MS = 10

/** The name under which a rebuild builds a table; no two rebuilds share one. */
export const shadowOf = (table: string, rebuild: string): string => `${shadowsOf(table)}${rebuild}`

/** How the names of all shadows of a table begin. */
export const shadowsOf = (table: string): string => `${table}_shadow_`

/** The position of rebuilt tables. */
export const rebuilt = ({ former, log }: RebuiltSource, next: number, rebuild: string): ViewPosition =>
  rebuiltPosition(former, log, next, rebuild)

/** Has the role of a view write no more until its tables were exchanged. Where no position counts, readers go on waiting. */
export async function fence(
  writer: ClickhouseWriter,
  view: TableView,
  rebuild: string,
  sources: readonly RebuiltSource[],
): Promise<Fenced> {
  for (let tries = 0; tries < TRIES; tries++) {
    const now = await readViewPositions(writer)
    const present = now.tablesOf(view)
    const shadows = view.tables.map(({ table: { name } }) => tableText(name, now.idOf(shadowOf(name, rebuild))))
    const rows = sources.map(of => {
      const { source, log } = of
      const found = now.of(view.name, source)
      const lacking = positionFrom({ topicId: log.topicId, next: log.start }, log.end + 1)
      const position = found !== undefined && countsFor(found, view, present) ? found.position : lacking
      return { of, written: { source, position, tables: [...present, ...shadows], after: found?.revision ?? 0 } }
    })
    const refused = await writeViewPositions(
      writer,
      view,
      rows.map(({ written }) => written),
    )
    if (refused.length === 0) return { rebuild, rows, shadows }
    await pause(PAUSE_MS)
  }
  throw new Error('its role wrote it at every try to replace it')
}

/** Exchanges the tables with the new ones. */
export async function switchTables(writer: ClickhouseWriter, view: TableView, rebuild: string): Promise<void> {
  for (const { table } of view.tables) {
    const [live, shadow] = [table.name, shadowOf(table.name, rebuild)].map(each => `${writer.database}.${each}`)
    await writer.command(`EXCHANGE TABLES ${live} AND ${shadow}${onCluster(writer.cluster)}`)
  }
}

/** Has the role go on with the new tables, from where they were reached. */
export async function settle(
  writer: ClickhouseWriter,
  view: TableView,
  { rebuild, rows, shadows }: Fenced,
  reached: Reached,
): Promise<void> {
  const settled = rows.map(({ of, written }): NewPosition => {
    const next = reached[of.source.topic]?.[of.source.partition] ?? of.log.start
    return { source: of.source, position: rebuilt(of, next, rebuild), tables: shadows, after: written.after + 1 }
  })
  const refused = await writeViewPositions(writer, view, settled)
  if (refused.length > 0)
    throw new Error('the switch took so long that its role has gone on meanwhile: rebuild it once more')
}
