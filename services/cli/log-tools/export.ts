/**
 * `marketlog export`: a range of a topic as a Parquet file or as NDJSON.
 *
 * Reads the brokers without a group. A Parquet file has the origin of each record (`_partition`, `_offset`, `_timestamp`,
 * `_key`, `_event`) and a column for every field of the topic's events, typed as in Avro; a field that an event lacks is
 * null, and what has no flat form is JSON text. Invariant: a file has its name only when it is whole.
 */
import { once } from 'node:events'
import { createWriteStream, renameSync, rmSync } from 'node:fs'
import { type Codec, eventOf } from '#infra/kafka/codec.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import { type ColumnType, openRecordFile, type RecordColumn } from '#infra/parquet/record-file.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { AvroType } from '#schemas/events/event.ts'
import { type TopicDefinition, topics } from '#schemas/topics.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import type { Output } from '../output.ts'
import { openRecordWriter } from './record-text.ts'
import { withTopicRange } from './topic-range.ts'

export interface ExportOptions {
  from?: string
  to?: string
  parquet?: string
  /** `-` is the output. */
  ndjson?: string
  rowsPerGroup?: number
  signal: AbortSignal
}

/** A file that has its name when finished. */
interface Target {
  add(records: readonly LogRecord[]): Promise<void>
  finish(): Promise<void>
  abandon(): void
}

/** Exports; prints the number of records at the end. */
export async function exportTopic(
  config: PlatformConfig,
  log: Log,
  topicText: string,
  output: Output,
  options: ExportOptions,
): Promise<void> {
  const { from, to, parquet, ndjson, rowsPerGroup, signal } = options
  if ((parquet === undefined) === (ndjson === undefined)) {
    throw new CommandFailure('name one of --parquet FILE and --ndjson FILE', exitCodes.usage)
  }
  const stretch = { topic: topicText, from, to, verb: 'export' } as const
  await withTopicRange(config, log, stretch, async ({ access, key, topic, ranges, progress }) => {
    const { codec } = access.kafka
    const target =
      parquet === undefined
        ? lines(codec, topics[key], ndjson ?? '-', output)
        : table(codec, topics[key], parquet, rowsPerGroup)
    let count = 0
    try {
      for await (const page of access.reader.range(topic, ranges)) {
        if (signal.aborted) throw new CommandFailure('stopped before the end', exitCodes.stoppedBySignal)
        await target.add(page)
        count += page.length
        progress(count)
      }
      await target.finish()
      return count
    } catch (error) {
      target.abandon()
      throw error
    }
  })
}

function lines(codec: Codec, topic: TopicDefinition, path: string, output: Output): Target {
  if (path === '-') {
    const add = openRecordWriter(codec, topic, output, false)
    return { add, finish: async () => undefined, abandon: () => undefined }
  }
  const unfinished = `${path}.part`
  const file = createWriteStream(unfinished)
  const failed = once(file, 'error').then(([error]) => Promise.reject(error))
  failed.catch(() => undefined)
  const writeRecords = openRecordWriter(codec, topic, file, false)
  return {
    add: records => Promise.race([writeRecords(records), failed]),
    async finish() {
      file.end()
      await Promise.race([once(file, 'finish'), failed])
      renameSync(unfinished, path)
    },
    abandon() {
      file.destroy()
      rmSync(unfinished, { force: true })
    },
  }
}

function table(codec: Codec, topic: TopicDefinition, path: string, rowsPerGroup?: number): Target {
  const fields = fieldColumns(topic)
  const file = openRecordFile(path, [...ORIGIN, ...fields.map(({ name, type }) => ({ name, type }))], rowsPerGroup)
  return {
    async add(records) {
      for (const { partition, offset, timestamp, key, value } of records) {
        // A record that cannot be read is a row with its origin alone.
        const decoded = eventOf(codec, value)
        const origin = [partition, BigInt(offset), new Date(timestamp), key?.toString() ?? null, decoded?.event ?? null]
        await file.append([...origin, ...fields.map(({ name, cell }) => cell(decoded?.value[name]))])
      }
    },
    finish: () => file.finish(),
    abandon: () => file.abandon(),
  }
}

const ORIGIN: readonly RecordColumn[] = [
  { name: '_partition', type: 'INT32' },
  { name: '_offset', type: 'INT64' },
  { name: '_timestamp', type: 'TIMESTAMP' },
  { name: '_key', type: 'STRING' },
  { name: '_event', type: 'STRING' },
]

interface FieldColumn extends RecordColumn {
  cell(value: unknown): unknown
}

/** A column for every field of any event of a topic; one that has several types is JSON text. */
function fieldColumns({ events }: Pick<TopicDefinition, 'events'>): FieldColumn[] {
  const types = new Map<string, ColumnType | 'JSON'>()
  for (const { avro } of events) {
    for (const { name, type } of avro.fields) {
      const column = columnType(type)
      types.set(name, (types.get(name) ?? column) === column ? column : 'JSON')
    }
  }
  return [...types].map(([name, type]) => ({ name, type: type === 'JSON' ? 'STRING' : type, cell: cellOf(type) }))
}

const FLAT: Record<string, ColumnType> = {
  string: 'STRING',
  int: 'INT32',
  long: 'INT64',
  double: 'DOUBLE',
  boolean: 'BOOLEAN',
  bytes: 'BYTE_ARRAY',
}

function columnType(type: AvroType): ColumnType | 'JSON' {
  if (typeof type === 'string') return FLAT[type] ?? 'JSON'
  if (!Array.isArray(type)) return type.type === 'enum' ? 'STRING' : 'JSON'
  const types = type.filter(one => one !== 'null')
  return types.length === 1 ? columnType(types[0] as AvroType) : 'JSON'
}

function cellOf(type: ColumnType | 'JSON'): (value: unknown) => unknown {
  const unlessNull = (form: (value: unknown) => unknown) => (value: unknown) =>
    value === null || value === undefined ? null : form(value)
  if (type === 'INT64') return unlessNull(value => BigInt(value as number))
  return unlessNull(type === 'JSON' ? value => JSON.stringify(value) : value => value)
}
