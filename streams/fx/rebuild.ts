/**
 * Rebuilds the exchange rates from the log: the days in place, then those in force in one write.
 *
 * Runs outside of the role, which goes on. Days: all rows of the log are written again, which replaces what differs, and rows that
 * no table of the log gives are removed after that, so no day is ever without its rates. In force: a compare-and-set of the
 * position, as each flush of the role is. So the role finds another position than its own and opens the view again. What the log no
 * longer holds is kept. A kill leaves what the next rebuild finishes.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import { setUpClickhouse } from '#infra/clickhouse/set-up-tables.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { Fenced, writeGuarded } from '#infra/redis/guarded-write.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { FxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { decodeNow, decodeSlowly, isDecoded } from '#streams/runner/decoding.ts'
import { readPartitionLog } from '#streams/runner/partition-log.ts'
import {
  assertNoLoss,
  decide,
  holdsAll,
  type PartitionLog,
  parsePosition,
  rebuiltPosition,
  type ViewPosition,
} from '#streams/runner/positions.ts'
import type { RebuildTask } from '#streams/runner/view.ts'
import { readViewPositions, viewPositions, writeViewPositions } from '#streams/runner/view-positions.ts'
import { type DayRow, dayOf, deleteDayRows, readDayRows } from './day-rows.ts'
import { type FxBatch, foldRates } from './step.ts'
import { fxCurrentKey, fxDays, fxDaysView, fxPositionKey, writeRates } from './table.ts'

/** The result of a rebuild. */
interface RebuiltRates {
  /** Usable tables of the log. */
  tables: number
  days: number
  /** Rows that no table of the log gives. */
  removed: number
}

const NAME = 'fx'
const SOURCE = { topic: 'fx', partition: 0 } as const
const TRIES = 200
const PAUSE_MS = 10
const REPLACED = 'its role wrote it at every try to replace it'
/** A row that is removed may have hidden another. */
const ROUNDS = 20

/** Rebuilds; rejects when the role's writes were quicker at every try. */
export async function rebuildRates({
  config,
  log,
  onProgress,
  signal,
  acceptLoss,
}: RebuildTask): Promise<RebuiltRates> {
  const kafka = connectKafka({ config, role: 'rebuild', log })
  const reader = await openRangeReader(kafka, [kafka.topicName('fx')])
  const ids = openTopicIds(kafka)
  const redis = await openRedis(config, { name: `${config.namespace}rebuild`, log })
  const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'rebuild' })
  const batcher = openBatcher(writer, { metrics: openMetrics() })
  try {
    onProgress('reading the log')
    const parts = { kafka, reader, redis, writer, prefix: config.namespace }
    await setUpClickhouse(writer, [viewPositions, fxDays])
    const partitionLog = await readPartitionLog({ kafka, reader, ids }, SOURCE, undefined)
    const { start } = partitionLog
    const before = parsePosition(await redis.get(fxPositionKey(config.namespace)))
    assertNoLoss(NAME, before, partitionLog, acceptLoss)
    const isLogWhole = holdsAll(before, partitionLog)
    const all = openFold()
    await all.readTo(kafka, reader, start, await reader.stableEnd(kafka.topicName('fx'), 0))
    onProgress('writing the days')
    const rows = new RowBuffer(fxDays)
    for (const [day, table] of all.batch.days) writeRates(rows, day, table)
    await batcher.add([rows])
    // Rows are read before the log, so that what the role writes meanwhile has its table there.
    let removed = 0
    for (let round = 0; round < ROUNDS; round++) {
      signal.throwIfAborted()
      const stored = await readDayRows(writer)
      await all.readTo(kafka, reader, start, await reader.stableEnd(kafka.topicName('fx'), 0))
      const strays = stored.filter(row => !all.isGiven(row) && (isLogWhole || row.day > all.firstDay()))
      if (strays.length === 0) break
      await deleteDayRows(writer, strays)
      removed += strays.length
    }
    onProgress('switching')
    await switchInForce(parts, partitionLog, signal)
    return { tables: all.tables(), days: all.batch.days.size, removed }
  } finally {
    await batcher.close()
    await writer.close()
    await closeRedis(redis)
    await ids.close()
    await reader.close()
  }
}

/** A fold of the log, and every rate that one of its usable tables gives. */
function openFold() {
  const batch: FxBatch = { current: undefined, days: new Map() }
  const given = new Set<string>()
  const keyOf = (row: DayRow): string => `${row.day} ${row.currency} ${row.rate} ${row.as_of}`
  let next: number | undefined
  let tables = 0
  return {
    batch,
    tables: () => tables,
    firstDay: () => Math.min(...batch.days.keys()),
    isGiven: (row: DayRow): boolean => given.has(keyOf(row)),
    async readTo(kafka: KafkaConnection, reader: RangeReader, start: number, to: number): Promise<void> {
      const range = { topic: kafka.topicName('fx'), partition: 0, from: next ?? start, to }
      next = to
      await reader.read(range, async ({ value, timestamp }) => {
        const decoded = decodeNow(kafka.codec, value) ?? (await decodeSlowly(kafka.codec, value))
        if (!isDecoded(decoded) || decoded.event !== 'FxRatesPublished') return
        const table: FxRatesPublished = decoded.value
        if (foldRates(batch, table, timestamp).kind !== 'ok') return
        tables += 1
        const [day, as_of] = [dayOf(table.as_of), table.as_of]
        for (const [currency, rate] of Object.entries(table.rates)) given.add(keyOf({ day, currency, rate, as_of }))
      })
    },
  }
}

interface SwitchParts {
  kafka: KafkaConnection
  reader: RangeReader
  redis: Redis
  writer: ClickhouseWriter
  prefix: string
}

/** Writes the rates in force, and the position that they reflect. */
async function switchInForce(parts: SwitchParts, log: PartitionLog, signal: AbortSignal): Promise<void> {
  const { kafka, reader, redis, prefix } = parts
  const fold = openFold()
  let reached = log.start
  for (let tries = 0; tries < TRIES; tries++) {
    signal.throwIfAborted()
    const text = await redis.get(fxPositionKey(prefix))
    const stored = parsePosition(text)
    const isFit = decide(stored, log).kind === 'resume'
    const to = isFit ? (stored?.next ?? 0) : await reader.stableEnd(kafka.topicName('fx'), 0)
    if (to < reached) throw new Error('its role has begun again meanwhile: rebuild it once more')
    await fold.readTo(kafka, reader, log.start, to)
    reached = to
    // Without a usable table there are no rates; the role then builds the view as a missing one.
    if (fold.batch.current === undefined && holdsAll(stored, log)) await redis.del(fxCurrentKey(prefix))
    const position = rebuiltPosition(stored, log, to, randomUUID())
    if (await write(redis, prefix, text, fold.batch, position)) return writeDaysPosition(parts, position)
    await pause(PAUSE_MS)
  }
  throw new Error(REPLACED)
}

/** Has the days count up to the position of the rates in force. */
async function writeDaysPosition({ writer }: SwitchParts, position: ViewPosition): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    const now = await readViewPositions(writer)
    const after = now.of(NAME, SOURCE)?.revision ?? 0
    const row = { source: SOURCE, position, tables: now.tablesOf(fxDaysView), after }
    if ((await writeViewPositions(writer, fxDaysView, [row])).length === 0) return
    await pause(PAUSE_MS)
  }
  throw new Error(REPLACED)
}

/** False when the role has written meanwhile. Rates of before the log's start stay where the log gives none. */
async function write(
  redis: Redis,
  prefix: string,
  expected: string | null,
  { current }: FxBatch,
  position: ViewPosition,
): Promise<boolean> {
  const args = current ? [JSON.stringify(current)] : []
  const writes = [{ command: 'SET' as const, key: fxCurrentKey(prefix), args }]
  try {
    await writeGuarded(redis, { guard: fxPositionKey(prefix), expected, value: JSON.stringify(position), writes })
    return true
  } catch (error) {
    if (error instanceof Fenced) return false
    throw error
  }
}
