/**
 * The role that keeps a view in ClickHouse: it writes the version that is read, and builds one where there is none of its form.
 *
 * A sink writes its rows, and then the position that they lead to is written; positions of partitions that are confirmed together share
 * a statement. States of a partition: waiting (its version is being built) -> open -> closed, when another version is named or a table
 * of it is lost: it is opened again.
 */
import { type Batcher, openBatcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { coalesce, coalesceAlike } from '#infra/runtime/async/coalesce.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { build } from './build.ts'
import { Conflict, type Source, sourceName } from './positions.ts'
import { type PartitionSink, type RowSink, runSink } from './sink-runner.ts'
import { tableVersions } from './table-store.ts'
import {
  intoVersion,
  isOfForm,
  type NewPosition,
  positionOf,
  readStoredViews,
  type StoredView,
  type VersionedView,
  writePositions,
} from './table-versions.ts'
import type { TableView } from './view.ts'

export async function runTableView(context: RoleContext, view: TableView): Promise<RunningRole> {
  const { config, metrics } = context
  const log = context.log.child({ role: view.name })
  const kafka = connectKafka({ config, role: view.name, log })
  const writer = openWriter(config.servers.clickhouse, {
    database: databaseName(config.namespace),
    name: `marketlog-${view.name}`,
  })
  const batcher = openBatcher(writer, { metrics })
  const stop = new AbortController()
  const signal = AbortSignal.any([context.signal, stop.signal])
  const waiting = new Set<() => void>()
  const buildMissing = coalesceAlike(async () => {
    const onProgress = (): void => {
      for (const progressed of waiting) progressed()
    }
    const task = { config, log, signal, onProgress, isMissingOnly: true as const, acceptLoss: false }
    const result = await build(tableVersions(view, config), task)
    if (result) log.info({ view: view.name, ...result }, 'a version of the view was built')
  })
  const sinks = openTableSinks(writer, view, batcher)
  const running = await runSink(context, kafka, {
    group: view.name,
    topics: view.topics,
    ...(view.maxBytesPerPartition && { maxBytesPerPartition: view.maxBytesPerPartition }),
    async open(source, { progressed }) {
      waiting.add(progressed)
      try {
        while (!(await sinks.isBuilt())) await buildMissing()
      } finally {
        waiting.delete(progressed)
      }
      return sinks.open(source, into => view.open(source.topic, into, context.catalog))
    },
  })
  return {
    ...running,
    async stop() {
      stop.abort()
      await running.stop()
      await batcher.close()
      await writer.close()
    },
  }
}

export interface TableSinks {
  /** Whether there is a version of the form that this process writes. */
  isBuilt(): Promise<boolean>
  /** A sink with the position of its partition in the version. */
  open(source: Source, openRows: (batcher: Batcher) => Promise<RowSink>): Promise<PartitionSink>
}

export function openTableSinks(writer: ClickhouseWriter, view: VersionedView, batcher: Batcher): TableSinks {
  const read = async (): Promise<StoredView> => (await readStoredViews(writer)).of(view.name)
  const readStored = coalesceAlike(read)
  const isWritten = coalesce(async (rows: readonly NewPosition[]) => {
    const refused = await writePositions(writer, view.name, rows)
    return rows.map(row => !refused.includes(row))
  })
  return {
    isBuilt: async () => isOfForm(view, (await readStored()).current),
    async open(source, openRows) {
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
          if (!(await isWritten({ version, source, position, after: revision })))
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
