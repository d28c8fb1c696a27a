/**
 * The role of a view in ClickHouse: it writes the version that is read.
 *
 * A sink writes its rows, and then the position that they lead to is written; positions of partitions that are confirmed together share
 * a statement.
 */
import { type Batcher, openBatcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { coalesce, coalesceAlike } from '#infra/runtime/async/coalesce.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { runBuiltView } from './built-role.ts'
import { Conflict, type Source, sourceName } from './positions.ts'
import type { PartitionSink, RowSink } from './sink-runner.ts'
import { tableVersions } from './table-store.ts'
import {
  intoVersion,
  isOfForm,
  type NewRow,
  positionOf,
  positionRow,
  readStoredViews,
  type StoredView,
  type VersionedView,
  writeRows,
} from './table-versions.ts'
import type { TableView } from './view.ts'

export const runTableView = (context: RoleContext, view: TableView): Promise<RunningRole> =>
  runBuiltView(context, view, async () => {
    const { config, metrics, catalog } = context
    const name = `marketlog-${view.name}`
    const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name })
    const batcher = openBatcher(writer, { metrics })
    const sinks = openTableSinks(writer, view, batcher)
    return {
      versions: () => tableVersions(view, config),
      reasonToBuild: async () => ((await sinks.isBuilt()) ? undefined : 'there is none of its form'),
      open: source => sinks.open(source, into => view.open(source.topic, into, catalog)),
      async close() {
        await batcher.close()
        await writer.close()
      },
    }
  })

export function openTableSinks(writer: ClickhouseWriter, view: VersionedView, batcher: Batcher) {
  const read = async (): Promise<StoredView> => (await readStoredViews(writer)).of(view.name)
  const readStored = coalesceAlike(read)
  const isWritten = coalesce((rows: readonly NewRow[]) => writeRows(writer, view.name, rows))
  return {
    isBuilt: async () => isOfForm(view, (await readStored()).current),
    async open(source: Source, openRows: (batcher: Batcher) => Promise<RowSink>): Promise<PartitionSink> {
      const stored = await readStored()
      const { current: version } = stored
      if (version === undefined) throw new Error(`${view.name} has no version`)
      const sink = await openRows(intoVersion(batcher, version))
      let revision = positionOf(stored, source)?.revision ?? 0
      return {
        ...sink,
        position: positionOf(stored, source)?.position,
        async flush(position) {
          await sink.flush()
          if (!(await isWritten(positionRow(version, source, position, revision))))
            throw new Conflict(
              `the position of ${view.name} in ${sourceName(source)} is not the one that was left there`,
            )
          revision += 1
        },
        close: async () => undefined,
        async isCurrent() {
          const now = await readStored()
          return now.current?.id === version.id && (positionOf(now, source)?.revision ?? 0) === revision
        },
      }
    },
  }
}
