/**
 * Gives the sinks of a view in ClickHouse their positions (view-positions.ts).
 *
 * A sink writes its rows, and then the position that they lead to is written; positions of partitions that are confirmed together share
 * a statement. Where a table of the view is missing it is made when a partition opens, and the view is built from the log: no position
 * counts for it. States of a partition while a rebuild exchanges the tables: waiting -> open with the rebuild's position, or, when the
 * rebuild was killed, with the one that it found.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import { planTables, setUpClickhouse } from '#infra/clickhouse/set-up-tables.ts'
import { openGathering } from '#infra/runtime/gathering.ts'
import type { Log } from '#infra/runtime/log.ts'
import { openSharedAnswer } from '#infra/runtime/shared-answer.ts'
import type { Source, ViewPosition } from './positions.ts'
import type { PartitionSink, RowSink } from './sink-runner.ts'
import {
  countsFor,
  type NewPosition,
  type PositionedView,
  PositionMoved,
  readViewPositions,
  type StoredPosition,
  type StoredPositions,
  sourceName,
  viewPositions,
  writeViewPositions,
} from './view-positions.ts'
import { POSITIONS_AGE_MS } from './whole-tables.ts'

/** Gives sinks their positions. */
export interface PositionedSinks {
  /** A sink with the position that counts for its tables; where it has one of its own too, the one before the other. */
  position(source: Source, open: () => Promise<RowSink | PartitionSink>): Promise<PartitionSink>
}

/** A rebuild exchanges tables within a moment; one that has not by then was killed, or finds its exchange undone. */
const EXCHANGED_WITHIN_MS = 30_000

/** Opens what the partitions of a view share. */
export function openPositionedSinks(writer: ClickhouseWriter, view: PositionedView, log: Log): PositionedSinks {
  const read = (): Promise<StoredPositions> => readViewPositions(writer)
  const [opening, watching] = [openSharedAnswer(read), openSharedAnswer(read)]
  const tables = openSharedAnswer(() => makeMissing(writer, view, log))
  const isWritten = openGathering(async (rows: readonly NewPosition[]) => {
    const refused = await writeViewPositions(writer, view, rows)
    return rows.map(row => !refused.includes(row))
  })
  const exchanges = new Map<string, { revision: number; since: number }>()

  /** Rejects while a rebuild exchanges the tables of a view. */
  function awaitExchange(source: Source, found: StoredPosition, present: readonly string[]): void {
    const name = sourceName(source)
    if (found.tables.length <= present.length) return
    const known = exchanges.get(name)
    const exchange = known?.revision === found.revision ? known : { revision: found.revision, since: performance.now() }
    exchanges.set(name, exchange)
    if (performance.now() - exchange.since < EXCHANGED_WITHIN_MS)
      throw new Error(`a rebuild exchanges the tables of ${view.name}`)
  }

  return {
    async position(source, open) {
      await tables.get()
      const now = await opening.get()
      const present = now.tablesOf(view)
      const found = now.of(view.name, source)
      const isCounted = found !== undefined && countsFor(found, view, present)
      if (isCounted) awaitExchange(source, found, present)
      const sink = await open()
      let revision = found?.revision ?? 0
      const isLeft = (after: StoredPositions): boolean =>
        (after.of(view.name, source)?.revision ?? 0) === revision && after.tablesOf(view).join() === present.join()
      return {
        ...sink,
        generation: found?.position.generation,
        position: earlier(isCounted ? found.position : undefined, sink),
        async flush(position) {
          await sink.flush(position)
          const row = { source, position, tables: present, after: revision }
          if (!(await isWritten(row))) throw new PositionMoved(view.name, source)
          revision += 1
        },
        isCurrent: async () =>
          isLeft(await watching.get()) && (!('isCurrent' in sink) || ((await sink.isCurrent?.()) ?? true)),
      }
    },
  }
}

/** What a view reflects that has one part in the tables and, where its sink has a position of its own, another elsewhere. */
function earlier(inTables: ViewPosition | undefined, sink: RowSink | PartitionSink): ViewPosition | undefined {
  if (!('position' in sink)) return inTables
  const { position } = sink
  // Parts that are of two topics are built again.
  if (inTables === undefined || position === undefined || inTables.topicId !== position.topicId) return undefined
  return position.next < inTables.next ? position : inTables
}

/** Makes the tables that are missing, once no reader takes a former position for one of them. */
async function makeMissing(writer: ClickhouseWriter, view: PositionedView, log: Log): Promise<void> {
  const declared = [viewPositions, ...view.tables.map(({ table }) => table)]
  const missing = await planTables(writer, declared)
  if (missing.length === 0) return
  log.warn(
    { view: view.name, tables: missing.map(({ table }) => table) },
    'tables are missing: the view is built again',
  )
  await pause(2 * POSITIONS_AGE_MS)
  await setUpClickhouse(writer, declared)
}
