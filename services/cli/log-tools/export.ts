/**
 * `marketlog export`: a range of a topic as a Parquet file or as NDJSON.
 *
 * Reads the brokers without a group. A Parquet file has the origin of each record (`_partition`, `_offset`, `_timestamp`,
 * `_key`, `_event`) and a column for every field of the topic's events, typed as in Avro; a field that an event lacks is
 * null, and what has no flat form is JSON text. Invariant: a file has its name only when it is whole.
 */
import { renameSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { type Codec, eventOf } from '#infra/kafka/codec.ts'
import { type ColumnType, openRecordFile, type RecordColumn } from '#infra/parquet/record-file.ts'
import type { AvroType } from '#schemas/events/event.ts'
import type { TopicDefinition } from '#schemas/topics.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import type { CommandContext } from '../output.ts'
import { openRecordText, openRecordWriter } from './record-text.ts'
import { moveRange, type RangeOptions, type Target } from './replay.ts'

/** Exports to one of two forms; `-` is the output. */
export async function exportTopic(
  context: CommandContext,
  topicText: string,
  {
    parquet,
    ndjson,
    rowsPerGroup,
    ...range
  }: RangeOptions & { parquet?: string; ndjson?: string; rowsPerGroup?: number },
): Promise<void> {
  if ((parquet === undefined) === (ndjson === undefined)) {
    throw new CommandFailure('name one of --parquet FILE and --ndjson FILE', exitCodes.usage)
  }
  await moveRange(context, topicText, { ...range, verb: 'export' }, async ({ kafka: { codec } }, topic) => {
    if (parquet !== undefined) return table(codec, topic, parquet, rowsPerGroup)
    if (ndjson === undefined || ndjson === '-') return { add: openRecordWriter(codec, topic, context.output, false) }
    return lines(codec, topic, ndjson)
  })
}

async function lines(codec: Codec, topic: TopicDefinition, path: string): Promise<Target> {
  const unfinished = `${path}.part`
  const textOf = openRecordText(codec, topic, false)
  const file = await open(unfinished, 'w')
  return {
    add: records => file.appendFile(textOf(records)),
    async finish() {
      await file.close()
      renameSync(unfinished, path)
    },
    async abandon() {
      await file.close()
      rmSync(unfinished, { force: true })
    },
  }
}

function table(codec: Codec, topic: TopicDefinition, path: string, rowsPerGroup?: number): Target {
  const fields = fieldColumns(topic)
  const file = openRecordFile(path, [...ORIGIN, ...fields.map(({ name, type }) => ({ name, type }))], rowsPerGroup)
  return {
    ...file,
    async add(records) {
      for (const { partition, offset, timestamp, key, value } of records) {
        // A record that cannot be read is a row with its origin alone.
        const event = eventOf(codec, value)
        const origin = [partition, BigInt(offset), new Date(timestamp), key?.toString() ?? null, event?.event ?? null]
        await file.append([...origin, ...fields.map(({ name, cell }) => cell(event?.value[name]))])
      }
    },
  }
}

const ORIGIN: readonly RecordColumn[] = [
  { name: '_partition', type: 'INT32' },
  { name: '_offset', type: 'INT64' },
  { name: '_timestamp', type: 'TIMESTAMP' },
  { name: '_key', type: 'STRING' },
  { name: '_event', type: 'STRING' },
]

/** A column for every field of any event of a topic; one that has several types is JSON text. */
function fieldColumns({ events }: TopicDefinition): (RecordColumn & { cell(value: unknown): unknown })[] {
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
