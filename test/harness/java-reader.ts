/**
 * Kafka's own client as a second reader of topics: test/fault/ground-truth/ReadTopic.java, with the jars that infra/stack keeps. Needs a JDK
 * of 17 or newer; continuous integration installs one, elsewhere its absence is noted. A reading that was cut short throws.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { KafkaSettings } from '#infra/runtime/kafka-settings.ts'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { FIRST_COMPILER_ONLY, provideJava } from '#infra/stack/java.ts'
import { provideKafkaJars } from '#infra/stack/native/kafka.ts'
import type { ToolContext } from '#infra/stack/native/native-server.ts'
import { runTool } from '#infra/stack/one-shot.ts'
import { installPackages } from '#infra/stack/system-packages.ts'
import { isContinuousIntegration, noteAbsence } from './absences.ts'

/** A record as the Java client reads it; key and value as bytes. */
interface JavaRecord {
  partition: number
  offset: number
  key: Buffer | null
  value: Buffer | null
}

type Isolation = 'read_committed' | 'read_uncommitted'

export interface JavaReader {
  read(brokers: readonly string[], topic: string, isolation?: Isolation, access?: KafkaSettings): Promise<JavaRecord[]>
}

const SOURCE = fileURLToPath(new URL('../fault/ground-truth/ReadTopic.java', import.meta.url))
const SYSTEM_RUNTIMES = '/usr/lib/jvm'
const READ_LIMIT_MS = 240_000
const INSTALL_LIMIT_MS = 300_000
const LOWEST = 17
const MEMORY = ['-Xmx512m', '-XX:+UseSerialGC', FIRST_COMPILER_ONLY]

/** The reader, or undefined where this machine has no JDK. */
export async function findJavaReader(
  environment: NodeJS.ProcessEnv = process.env,
  installedIn = SYSTEM_RUNTIMES,
): Promise<JavaReader | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-jdk-'))
  const find = () => findJdk(environment, installedIn)
  const context: ToolContext = {
    cacheDir: cacheDirectory(environment),
    environment,
    logFile: join(folder, 'log'),
    say: line => console.error(`  [java] ${line}`),
    signal: AbortSignal.timeout(INSTALL_LIMIT_MS),
  }
  try {
    const launcher = find() ?? (isContinuousIntegration(environment) ? await installJdk(context, find) : undefined)
    if (launcher !== undefined)
      return javaReader(launcher, await provideKafkaJars(context, await provideJava(context, LOWEST)), environment)
    noteAbsence('a JDK (javac)', "Kafka's own client does not read the topics a second time", environment)
    return undefined
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const installJdk = (context: ToolContext, find: () => string | undefined): Promise<string> =>
  installPackages(context, ['default-jdk-headless'], "A JDK is needed to run Kafka's own client", find)

function javaReader(launcher: string, jars: string, environment: NodeJS.ProcessEnv): JavaReader {
  return {
    async read(brokers, topic, isolation = 'read_committed', access = undefined) {
      const folder = mkdtempSync(join(tmpdir(), 'marketlog-java-'))
      const file = join(folder, 'records.tsv')
      try {
        const args = [...MEMORY, '-cp', join(jars, '*'), SOURCE, brokers.join(','), topic, isolation, file]
        if (access !== undefined) {
          args.push(join(folder, 'client.properties'))
          const lines = Object.entries(javaSettings(access)).map(([name, value]) => `${name}=${value}\n`)
          writeFileSync(join(folder, 'client.properties'), lines.join(''), { mode: 0o600 })
        }
        const signal = AbortSignal.timeout(READ_LIMIT_MS)
        await runTool({ command: launcher, args, limitMs: READ_LIMIT_MS, signal, environment })
        return readFileSync(file, 'latin1').split('\n').filter(Boolean).map(recordOf)
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
  }
}

/** Settings by which a client of Kafka's own comes in, by Kafka's names. */
export function javaSettings({ tls, sasl }: KafkaSettings): Record<string, string> {
  const protocol = `${sasl ? 'SASL_' : ''}${tls ? 'SSL' : 'PLAINTEXT'}`
  const login = sasl?.mechanism === 'plain' ? 'plain.PlainLoginModule' : 'scram.ScramLoginModule'
  const settings: Record<string, string> = { 'security.protocol': protocol }
  if (tls?.ca !== undefined)
    Object.assign(settings, { 'ssl.truststore.type': 'PEM', 'ssl.truststore.location': tls.ca })
  if (sasl !== undefined) {
    const credentials = `username="${sasl.user}" password="${sasl.password()}"`
    settings['sasl.mechanism'] = sasl.mechanism.toUpperCase()
    settings['sasl.jaas.config'] = `org.apache.kafka.common.security.${login} required ${credentials};`
  }
  return settings
}

function recordOf(line: string): JavaRecord {
  const [partition, offset, key, value] = line.split('\t')
  const bytes = (text = '-') => (text === '-' ? null : Buffer.from(text, 'base64'))
  return { partition: Number(partition), offset: Number(offset), key: bytes(key), value: bytes(value) }
}

/** A `java` with the compiler beside it: JAVA_HOME, PATH, then /usr/lib/jvm. */
export function findJdk(
  { JAVA_HOME, PATH = '' }: ToolContext['environment'],
  installedIn = SYSTEM_RUNTIMES,
): string | undefined {
  const installed = existsSync(installedIn) ? readdirSync(installedIn).map(name => join(installedIn, name, 'bin')) : []
  return [...(JAVA_HOME ? [join(JAVA_HOME, 'bin')] : []), ...PATH.split(delimiter), ...installed]
    .map(directory => join(directory, 'javac'))
    .filter(compiler => existsSync(compiler))
    .map(compiler => join(dirname(realpathSync(compiler)), 'java'))
    .find(launcher => existsSync(launcher))
}
