import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { offsetsIn, openLogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import { type LogRecord, openRangeReader } from '#infra/kafka/range-reader.ts'
import { topics } from '#schemas/topics.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { exportTopic } from '#services/cli/log-tools/export.ts'
import { play, replay } from '#services/cli/log-tools/replay.ts'
import { collectOutput, contextOf } from '#test/harness/collected-output.ts'
import { type PublishedRefresh, refreshOf, refreshRecords } from '#test/harness/published-records.ts'
import { useServers } from '#test/harness/use-servers.ts'

const REFRESHES = 12
const ITEMS = 120
const TOPIC = 'market.quotes'

describe('replay and export', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let folder: string
  const going = { signal: new AbortController().signal }

  before(async () => {
    kafka = platform.connect('ingest')
    const publisher = await platform.openPublisher(kafka, 'ingest')
    for (let refresh = 0; refresh < REFRESHES; refresh++)
      await publisher.send(refreshRecords(kafka.codec, refreshOfMinute(refresh)))
    await publisher.send([{ topic: 'quotes', key: 'provider_03', value: Buffer.from('poison') }])
    folder = mkdtempSync(join(platform.config.stateDir, 'export-'))
  })

  const replayed = async (options: Partial<Parameters<typeof replay>[2]>) => {
    const output = collectOutput()
    await replay(contextOf(platform, output), TOPIC, { speed: 0, ...going, ...options })
    return output.lines()
  }

  it('replays to an output as fast as it goes, decoded and raw, poison included, all or between two offsets', async () => {
    const records = await readAll(kafka, kafka.topicName('quotes'))
    const lines = await replayed({})
    expect(lines.map(positionOf)).to.have.members(records.map(positionOf))
    expect(lines.find(({ event }) => event === 'AskObserved').value).to.include({ currency: 'USD', url: null })
    expect(lines.filter(({ event }) => event === null)).to.have.length(1)
    const raw = await replayed({ raw: true })
    const bytes = new Map(records.map(record => [positionOf(record), record.value?.toString('base64')]))
    expect(raw.map(line => [positionOf(line), line.raw])).to.have.deep.members([...bytes])
    const between = records.filter(({ offset }) => offset >= 10 && offset < 13)
    expect((await replayed({ from: '10', to: '13' })).map(positionOf)).to.have.members(between.map(positionOf))
  })

  it('replays in time: in the order of the log over all partitions, each record when its time has come', async () => {
    const access = await openLogAccess(platform.config, platform.log, ['quotes'])
    const stretch = await rangesOf(access, 'quotes', undefined)
    const came: { timestamp: number; at: number }[] = []
    let now = 0
    const clock = {
      now: () => now,
      async wait(ms: number) {
        now += ms
      },
    }
    const deliver = async (records: readonly LogRecord[]): Promise<void> => {
      for (const { timestamp } of records) came.push({ timestamp, at: now })
    }
    await play(access, stretch, { speed: 2, ...going }, deliver, clock)
    await access.close()
    const times = came.map(({ timestamp }) => timestamp)
    expect(came.length).to.equal(offsetsIn(stretch))
    expect(times).to.deep.equal(times.toSorted((a, b) => a - b))
    expect(new Set(times).size).to.be.above(1)
    expect(came.map(({ at }) => at)).to.deep.equal(times.map(time => (time - Number(times[0])) / 2))
  })

  it('replays into a topic of its own byte for byte, and into none of the catalogue', async () => {
    await replayed({ toTopic: 'my-quotes' })
    const [original, copy] = [
      await readAll(kafka, kafka.topicName('quotes')),
      await readAll(kafka, `${kafka.namespace}my-quotes`),
    ]
    const content = ({ partition, key, value, timestamp }: LogRecord) =>
      `${partition} ${key} ${value?.toString('base64')} ${timestamp}`
    expect(copy.map(content)).to.deep.equal(original.map(content))
    expect(await replayed({ toTopic: 'market.sales' }).catch(error => error)).to.include({ exitCode: 64 })
  })

  it('exports to Parquet with bounded row groups; another library reads back what the log holds', async () => {
    const path = join(folder, 'quotes.parquet')
    const options = { parquet: path, rowsPerGroup: 200, ...going }
    await exportTopic(contextOf(platform, collectOutput()), TOPIC, options)
    expect(readdirSync(folder)).to.deep.equal(['quotes.parquet'])
    const file = await asyncBufferFromFile(path)
    const { row_groups } = await parquetMetadataAsync(file)
    const total = REFRESHES * (ITEMS + 1) + 1
    expect(row_groups.map(({ num_rows }) => Number(num_rows))).to.deep.equal(groupsOf(total, 200))
    const rows = await parquetReadObjects({ file })
    const poison = rows.filter(({ _event }) => _event === null)
    expect(poison).to.have.length(1)
    const fields = [...new Set(topics.quotes.events.flatMap(({ avro }) => avro.fields.map(({ name }) => name)))]
    const shown = rows.filter(({ _event }) => _event !== null).map(row => JSON.stringify(row, numbers))
    const decoded = (await replayed({})).filter(({ event }) => event !== null)
    const records = decoded.map(({ partition, offset, key, event, value, timestamp }) => {
      const at = { _partition: partition, _offset: offset, _timestamp: new Date(timestamp) }
      const position = { ...at, _key: key, _event: event }
      const content = Object.fromEntries(fields.map(name => [name, value[name] ?? null]))
      return JSON.stringify({ ...position, ...content }, numbers)
    })
    expect(shown).to.have.members(records)
  })

  it('exports to NDJSON, as a file and on an output', async () => {
    const path = join(folder, 'quotes.ndjson')
    await exportTopic(contextOf(platform, collectOutput()), TOPIC, { ndjson: path, ...going })
    const output = collectOutput()
    await exportTopic(contextOf(platform, output), TOPIC, { ndjson: '-', ...going })
    expect(readFileSync(path, 'utf8').split('\n').toSorted()).to.deep.equal(output.text().split('\n').toSorted())
    expect(output.lines()).to.have.length(REFRESHES * (ITEMS + 1) + 1)
  })
})

const positionOf = ({ partition, offset }: { partition: number; offset: number }): string => `${partition}@${offset}`

const numbers = (_: string, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)

const groupsOf = (total: number, size: number): number[] =>
  Array.from({ length: Math.ceil(total / size) }, (_, at) => Math.min(size, total - at * size))

const refreshOfMinute = (minute: number): PublishedRefresh =>
  refreshOf({
    provider: `provider_0${1 + (minute % 5)}`,
    observedAt: Date.UTC(2026, 2, 3) + minute * MINUTE_MS,
    refreshId: `r${minute}`,
    entries: Array.from({ length: ITEMS }, (_, index) => ({
      name: `Name ${index}`,
      phase: index % 7 === 0 ? 'Ruby' : null,
      itemId: undefined,
      price: 100 + index,
      quantity: index,
    })),
  })

async function readAll(kafka: KafkaConnection, topic: string): Promise<LogRecord[]> {
  const reader = await openRangeReader(kafka, [topic])
  const records: LogRecord[] = []
  try {
    for (let partition = 0; partition < topics.quotes.partitions; partition++) {
      const to = await reader.stableEnd(topic, partition)
      for await (const page of reader.range(topic, new Map([[partition, { from: 0, to }]]))) records.push(...page)
    }
  } finally {
    await reader.close()
  }
  return records
}
