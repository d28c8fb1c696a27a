/**
 * The Kafka Streams program: built from its sources, reading a stage's market.quotes and writing topics of its own, which go with the
 * namespace; and what it and the book wrote. Its process ends when its standard input closes, so it never outlives the run.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { crc32 } from 'node:zlib'
import { catalogVersion, loadCatalog } from '#infra/config/catalog.ts'
import { withAdmin } from '#infra/kafka/admin.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { createTopics } from '#infra/kafka/topic-admin.ts'
import { provideJava, runMaven } from '#infra/stack/java.ts'
import type { ToolContext } from '#infra/stack/native/native-server.ts'
import { installPackages } from '#infra/stack/system-packages.ts'
import { type EventSchema, subjectOf } from '#schemas/events/event.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { within } from '#test/harness/eventually.ts'
import { findJdk, javaSettings } from '#test/harness/java-reader.ts'
import { residentMibOf } from '#test/harness/process-figures.ts'
import { endsOf, type JudgedWatch, type Stage, watchJudged } from '../stage.ts'

const LOWEST_JAVA = 17
const NEEDS_JDK = 'a JDK of version 17 or newer (`javac`) is needed to build it'
const OUTPUTS = { changes: 'bookChanges', refreshes: 'refreshes' } as const
const READ_AND_WRITTEN: readonly TopicKey[] = ['quotes', 'bookChanges', 'refreshes', 'book']
const THREADS = 2
const MEMORY = ['-Xms512m', '-Xmx512m', '-XX:+UseSerialGC']
const MAX_MESSAGE_BYTES = '16777216'
const REGISTRY_LIMIT_MS = 5_000
const COMPLAINT_CHARACTERS = 4_000

/**
 * Builds the program with Maven, once for its sources: `kafka-streams-book-<digest of the sources>` below the download cache, with its jar and
 * those that it needs. Such a folder exists only complete, since it is renamed at the end; afterwards no Maven, JDK or network is needed.
 */
export async function provideStreamsBook(context: ToolContext) {
  try {
    const java = await provideJava(context, LOWEST_JAVA)
    const jars = join(context.cacheDir, `kafka-streams-book-${digestOfSources()}`)
    if (!existsSync(jars)) await build(context, jars)
    return { launcher: java.launcher, classPath: join(jars, '*') }
  } catch (error) {
    context.signal.throwIfAborted()
    throw new Error(`book: Kafka Streams is missing: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function digestOfSources(): string {
  const hash = createHash('sha256')
  const sources = globSync('src/main/java/**/*.java', { cwd: import.meta.dirname }).sort()
  for (const file of ['pom.xml', ...sources]) hash.update(file).update(readFileSync(join(import.meta.dirname, file)))
  return hash.digest('hex').slice(0, 12)
}

async function build(context: ToolContext, jars: string): Promise<void> {
  const { environment, cacheDir } = context
  const find = () => findJdk(environment)
  const launcher = find() ?? (await installPackages(context, ['default-jdk-headless'], NEEDS_JDK, find))
  // Maven compiles in its own process, which must therefore be a JDK's.
  const withJdk = { ...context, environment: { ...environment, JAVA_HOME: dirname(dirname(launcher)) } }
  mkdirSync(cacheDir, { recursive: true })
  const work = mkdtempSync(join(cacheDir, 'kafka-streams-book.partial-'))
  try {
    for (const part of ['pom.xml', 'src'])
      cpSync(join(import.meta.dirname, part), join(work, part), { recursive: true })
    context.say('building the Kafka Streams program (the first time: downloading 97 MB)')
    const kept = join(work, 'kept')
    const java = { launcher, version: LOWEST_JAVA, build: '' }
    const options = [`-DoutputDirectory=${kept}`, '-DincludeScope=runtime', '-Dmaven.test.skip=true', 'package']
    await runMaven(withJdk, java, work, 'copy-dependencies', options)
    cpSync(join(work, 'target', 'streams-book-1.jar'), join(kept, 'streams-book-1.jar'))
    if (!existsSync(jars)) renameSync(kept, jars)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

export type StreamsBook = Awaited<ReturnType<typeof startStreamsBook>>

/** Starts the program at the beginning of market.quotes; resolves when it runs. */
export async function startStreamsBook(
  { launcher, classPath }: Awaited<ReturnType<typeof provideStreamsBook>>,
  stage: Stage,
) {
  const prefix = `${stage.kafka.namespace}streams.`
  const kafka = { ...stage.kafka, namespace: prefix, topicName: (key: TopicKey) => prefix + topics[key].name }
  await createOutputs(kafka)
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-streams-'))
  const settings = join(folder, 'settings.json')
  writeFileSync(settings, JSON.stringify(await settingsOf(stage, kafka, folder)), { mode: 0o600 })
  const child = spawn(
    launcher,
    [...MEMORY, '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn', '-cp', classPath, 'marketlog.StreamsBook', settings],
    { stdio: ['pipe', 'pipe', 'pipe'] },
  )
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-COMPLAINT_CHARACTERS)
  })
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => undefined)
  const exit = new Promise<void>(resolve => void child.once('close', () => resolve()))
  void exit.then(() => ended.reject(new Error(`book: the Kafka Streams program ended:\n${complaint}`)))
  child.once('error', ended.reject)
  child.stdin.on('error', () => undefined)
  const answers = createInterface({ input: child.stdout })
  const lineOf = (word: string) =>
    new Promise<void>(resolve => {
      const listen = (line: string): void => {
        if (line !== word) return
        answers.off('line', listen)
        resolve()
      }
      answers.on('line', listen)
    })
  const command = async (word: string): Promise<void> => {
    const answered = lineOf(word)
    child.stdin.write(`${word}\n`)
    await within(Promise.race([answered, ended.promise]), `Kafka Streams to ${word}`)
  }
  const running = lineOf('running')
  const watch = await watchJudged(kafka)
  const stop = async (): Promise<void> => {
    await watch.close()
    child.stdin.end()
    await within(exit, 'Kafka Streams to end').catch(() => child.kill('SIGKILL'))
    await exit
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await within(Promise.race([running, ended.promise]), 'Kafka Streams to run')
  } catch (error) {
    await stop()
    throw error
  }
  const pid = child.pid as number
  return {
    /** Where its outputs are: the same topics under a prefix of their own. */
    kafka,
    judged: {
      ...watch,
      applied: (...asked: Parameters<JudgedWatch['applied']>) => Promise.race([watch.applied(...asked), ended.promise]),
    } satisfies JudgedWatch,
    residentMib: () => residentMibOf(pid),
    pause: () => command('pause'),
    resume: () => command('resume'),
    stop,
  }
}

async function createOutputs(kafka: KafkaConnection): Promise<void> {
  const created = Object.values(OUTPUTS).map(key => ({
    topic: kafka.topicName(key),
    numPartitions: topics[key].partitions,
    configEntries: [{ name: 'max.message.bytes', value: MAX_MESSAGE_BYTES }],
  }))
  await withAdmin(kafka, admin => createTopics(admin, created))
}

async function settingsOf({ config, kafka }: Stage, own: KafkaConnection, folder: string): Promise<object> {
  const catalog = join(folder, 'catalog.tsv')
  const lines = loadCatalog().map(item => `${item.item_id}\t${item.phase ?? ''}\t${item.market_hash_name}`)
  writeFileSync(catalog, lines.join('\n'))
  const events: readonly EventSchema<object>[] = READ_AND_WRITTEN.flatMap(key => [...topics[key].events])
  const schemas: Record<string, object> = {}
  for (const event of new Set(events)) {
    const subject = encodeURIComponent(kafka.namespace + subjectOf(event))
    const url = `${config.servers.schemaRegistry}/subjects/${subject}/versions/latest`
    const answer = await fetch(url, { signal: AbortSignal.timeout(REGISTRY_LIMIT_MS) })
    if (!answer.ok) throw new Error(`the registry answered ${answer.status} for ${event.name}`)
    const { id } = (await answer.json()) as { id: number }
    schemas[event.name] = { id, avro: event.avro }
  }
  return {
    brokers: kafka.brokers.join(','),
    client: javaSettings(kafka.settings),
    applicationId: `${own.namespace}book`,
    input: kafka.topicName('quotes'),
    outputs: Object.fromEntries(Object.entries(OUTPUTS).map(([name, key]) => [name, own.topicName(key)])),
    stateDir: folder,
    threads: THREADS,
    compression: 'zstd',
    catalog,
    catalogVersion: catalogVersion(),
    schemas,
  }
}

const COMPARED = ['bookChanges', 'refreshes'] as const satisfies readonly TopicKey[]

/** A writer's outputs: where they are, and from which offsets on. */
interface WrittenOutputs {
  kafka: KafkaConnection
  from: Record<(typeof COMPARED)[number], number[]>
}

export async function endsOfOutputs(kafka: KafkaConnection): Promise<WrittenOutputs['from']> {
  const reader = await openRangeReader(kafka, COMPARED.map(kafka.topicName))
  try {
    const [bookChanges, refreshes] = [
      await endsOf(reader, kafka, 'bookChanges'),
      await endsOf(reader, kafka, 'refreshes'),
    ]
    return { bookChanges, refreshes }
  } finally {
    await reader.close()
  }
}

/**
 * Throws unless both wrote the same: equal numbers of records, and equal checksums that do not depend on order, since that between refreshes
 * of different providers is free. Invariant: equal checksums mean equal keys and bytes, source offsets included.
 */
export async function compareOutputs(book: WrittenOutputs, streams: WrittenOutputs): Promise<void> {
  for (const key of COMPARED) {
    const [ours, theirs] = [await contentOf(book, key), await contentOf(streams, key)]
    const { name } = topics[key]
    if (ours.records === 0) throw new Error(`book: there was nothing in ${name} to compare`)
    if (ours.records !== theirs.records)
      throw new Error(`book: Kafka Streams wrote ${theirs.records} records to ${name}, the book ${ours.records}`)
    if (ours.checksum !== theirs.checksum) throw new Error(`book: Kafka Streams wrote other records to ${name}`)
  }
}

async function contentOf({ kafka, from }: WrittenOutputs, key: (typeof COMPARED)[number]) {
  const topic = kafka.topicName(key)
  const reader = await openRangeReader(kafka, [topic])
  let records = 0
  let checksum = 0n
  let sum = 0
  try {
    for (const [partition, end] of (await endsOfOutputs(kafka))[key].entries()) {
      const range = { from: from[key][partition] ?? 0, to: end }
      for await (const page of reader.range(topic, new Map([[partition, range]]))) {
        for (const record of page) {
          // The square distinguishes two records from two others of the same sum.
          const hash = crc32(record.value ?? '', crc32(record.key ?? ''))
          records += 1
          sum += hash
          checksum += BigInt(hash) * BigInt(hash)
        }
      }
    }
  } finally {
    await reader.close()
  }
  return { records, checksum: checksum + (BigInt(sum) << 128n) }
}
