/**
 * Apache Kafka as one combined broker and controller, from its Maven jars.
 *
 * Reads the download cache and KAFKA_JVM_PERFORMANCE_OPTS, writes <dataDir>/kafka. Invariant: the storage is formatted
 * exactly once; the mark of a finished format is written last, so a format that was cut off is done again. Topics are
 * never created by use.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pinnedVersion, provideArtifact } from '../downloads.ts'
import { FIRST_COMPILER_ONLY, type JavaRuntime, provideJava, runMaven } from '../java.ts'
import { runTool } from '../one-shot.ts'
import { replaceFile } from '../processes.ts'
import { kafkaAnswers } from '../readiness.ts'
import type { NativeContext, PreparedServer, PrepareServer, ToolContext } from './native-server.ts'

const LOWEST_JAVA = 17
const FORMAT_LIMIT_MS = 60_000
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024

export type BrokerProperties = Record<string, string | number | boolean>

interface BrokerPlan {
  home: string
  properties: BrokerProperties
  clusterId: string
  /** Further arguments of the format, such as users. */
  formatArguments: string[]
  /** A port that answers clients without credentials. */
  probePort: number
}

export const prepareKafka: PrepareServer = async context => {
  const [broker, controller] = [await context.port('kafka'), await context.port('kafka-controller')]
  const home = join(context.dataDir, 'kafka')
  const id = randomBytes(16)
  // A leading dash, which a high first byte may give, would be read as an option.
  id[0] = (id[0] as number) & 0x7f
  const launched = await prepareBroker(context, {
    home,
    clusterId: id.toString('base64url'),
    formatArguments: [],
    probePort: broker,
    properties: {
      'node.id': 1,
      'controller.quorum.voters': `1@127.0.0.1:${controller}`,
      listeners: `PLAINTEXT://127.0.0.1:${broker},CONTROLLER://127.0.0.1:${controller}`,
      'advertised.listeners': `PLAINTEXT://127.0.0.1:${broker}`,
      'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
      ...replication(1, 1),
    },
  })
  return { ...launched, addresses: { kafka: [`127.0.0.1:${broker}`] } }
}

export async function prepareBroker(
  context: NativeContext,
  plan: BrokerPlan,
): Promise<Omit<PreparedServer, 'addresses'>> {
  const { home } = plan
  const java = await provideJava(context, LOWEST_JAVA)
  const jars = await provideKafkaJars(context, java)
  mkdirSync(home, { recursive: true })
  const properties = join(home, 'server.properties')
  const logDir = join(home, 'log').replaceAll('\\', '\\\\')
  // Where several brokers take clients, it holds their passwords.
  replaceFile(properties, propertiesText({ ...COMMON, 'log.dirs': logDir, ...plan.properties }), 0o600)
  const classPath = readdirSync(jars)
    .sort()
    .map(jar => join(jars, jar))
    .join(':')
  await formatOnce(context, plan, [
    ...[java.launcher, FIRST_COMPILER_ONLY, '-cp', classPath],
    ...[...LOGGING, 'kafka.tools.StorageTool'],
  ])
  return {
    launch: {
      command: java.launcher,
      args: [...machineOptions(context), ...LOGGING, '-cp', classPath, 'kafka.Kafka', properties],
    },
    isReady: () => kafkaAnswers(plan.probePort),
  }
}

/** The folder of the broker's jars, with which Kafka's own clients run too. */
export const provideKafkaJars = (context: ToolContext, java: JavaRuntime): Promise<string> =>
  provideArtifact('kafka', context.cacheDir, (files, work) => fetchJars(context, java, files, work))

const MEMORY = ['-Xms96m', '-Xmx768m', '-XX:+UseSerialGC']
/** Options of the virtual machine; the environment names more by the name that Kafka's own scripts read. */
const machineOptions = ({ environment }: NativeContext): string[] => [
  ...MEMORY,
  ...(environment.KAFKA_JVM_PERFORMANCE_OPTS ?? '').split(' ').filter(Boolean),
]

// Warnings say what is wrong; the broker's lifecycle lines say how far a start has come.
const LOGGING = [
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
  '-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info',
  '-Dorg.slf4j.simpleLogger.log.kafka.server.BrokerServer=info',
  '-Dorg.slf4j.simpleLogger.log.kafka.server.BrokerLifecycleManager=info',
  '-Dorg.slf4j.simpleLogger.showDateTime=true',
  "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSX",
]

async function fetchJars(context: ToolContext, java: JavaRuntime, files: string, work: string): Promise<void> {
  const dependency = (group: string, artifact: string, version: string) =>
    `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`
  writeFileSync(
    join(work, 'pom.xml'),
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>' +
      '<groupId>marketlog</groupId><artifactId>kafka-jars</artifactId><version>1</version><dependencies>' +
      dependency('org.apache.kafka', 'kafka_2.13', pinnedVersion('kafka')) +
      dependency('org.slf4j', 'slf4j-simple', '1.7.36') +
      '</dependencies></project>',
  )
  context.say('downloading 43 MB')
  await runMaven(context, java, work, 'copy-dependencies', [`-DoutputDirectory=${files}`, '-DincludeScope=runtime'])
}

async function formatOnce(context: NativeContext, plan: BrokerPlan, tool: string[]): Promise<void> {
  const { home, clusterId, formatArguments } = plan
  const mark = join(home, 'formatted')
  if (existsSync(mark)) return
  rmSync(join(home, 'log'), { recursive: true, force: true })
  const config = ['-c', join(home, 'server.properties')]
  await runTool({
    ...context,
    command: tool[0] as string,
    args: [...tool.slice(1), 'format', '-t', clusterId, ...config, ...formatArguments],
    limitMs: FORMAT_LIMIT_MS,
  })
  replaceFile(mark, clusterId)
}

/** Replicas of the brokers' own topics, and how many of them must hold a record. */
export const replication = (factor: number, inSync: number): BrokerProperties => ({
  'offsets.topic.replication.factor': factor,
  'transaction.state.log.replication.factor': factor,
  'transaction.state.log.min.isr': inSync,
  'share.coordinator.state.topic.replication.factor': factor,
  'share.coordinator.state.topic.min.isr': inSync,
})

const COMMON: BrokerProperties = {
  'process.roles': 'broker,controller',
  'controller.listener.names': 'CONTROLLER',
  'auto.create.topics.enable': false,
  'num.network.threads': 2,
  'num.io.threads': 4,
  'num.recovery.threads.per.data.dir': 2,
  'offsets.topic.num.partitions': 4,
  'transaction.state.log.num.partitions': 4,
  'share.coordinator.state.topic.num.partitions': 1,
  'group.initial.rebalance.delay.ms': 0,
  // A broker that was killed is let in again only when its old session has run out (default 9 s), so this bounds
  // the start after kill -9; a stall of the same length costs one fencing, which heals at the next heartbeat.
  'broker.session.timeout.ms': 5_000,
  'broker.heartbeat.interval.ms': 500,
  'log.segment.bytes': 128 * 1024 * 1024,
  'message.max.bytes': MAX_MESSAGE_BYTES,
  'replica.fetch.max.bytes': MAX_MESSAGE_BYTES,
}

const propertiesText = (properties: BrokerProperties): string =>
  `${Object.entries(properties)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n')}\n`
