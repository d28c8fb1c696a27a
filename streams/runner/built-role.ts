/**
 * The role that keeps a view which exists in versions: it writes the one that is read, and builds one where there is none of its form, or the
 * log does not go on from it.
 *
 * States of a partition: waiting (its version is being built, with those of others that wait) -> open -> closed, when its store holds
 * something else than was left there: it is opened again. A partition that is sound is opened at once, whatever is built beside it.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { coalesce } from '#infra/runtime/async/coalesce.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { build, type Versions } from './build.ts'
import type { Position, Source } from './positions.ts'
import { type PartitionSink, runSink } from './sink-runner.ts'
import type { TableView } from './view.ts'

interface OwnedStore {
  /** Those of some partitions, or of all where a version is of the whole view. */
  versions(partitions: readonly number[]): Versions
  /** Why a partition is built before it is open; `faultOf` says why the log does not go on from a position. */
  reasonToBuild(source: Source, faultOf: (stored: Position) => Promise<string | undefined>): Promise<string | undefined>
  open(source: Source): Promise<PartitionSink>
  close(): Promise<void>
}

export async function runBuiltView(
  context: RoleContext,
  { name, topics, maxBytesPerPartition }: Pick<TableView, 'name' | 'topics' | 'maxBytesPerPartition'>,
  openStore: (log: Log) => Promise<OwnedStore>,
): Promise<RunningRole> {
  const { config } = context
  const log = context.log.child({ role: name })
  const kafka = connectKafka({ config, role: name, log })
  const store = await openStore(log)
  const stop = new AbortController()
  const signal = AbortSignal.any([context.signal, stop.signal])
  const waiting = new Set<() => void>()
  const onProgress = (): void => {
    for (const progressed of waiting) progressed()
  }
  const buildMissing = coalesce(async (lacking: readonly { partition: number; reason: string }[]) => {
    // In one order, since each may have a lease.
    const partitions = [...new Set(lacking.map(({ partition }) => partition))].toSorted((one, other) => one - other)
    const task = { config, log, signal, onProgress, isMissingOnly: true as const, acceptLoss: false }
    const result = await build(store.versions(partitions), task)
    if (result) log.warn({ view: name, partitions, reason: lacking[0]?.reason, ...result }, 'a version was built')
    return lacking.map(() => undefined)
  })
  const running = await runSink(context, kafka, {
    group: name,
    topics,
    maxBytesPerPartition,
    async open(source, { faultOf, progressed }) {
      const reason = await store.reasonToBuild(source, faultOf)
      if (reason !== undefined) {
        waiting.add(progressed)
        await buildMissing({ partition: source.partition, reason }).finally(() => waiting.delete(progressed))
      }
      return store.open(source)
    },
  })
  return {
    ...running,
    async stop() {
      stop.abort()
      await running.stop()
      await store.close()
    },
  }
}
