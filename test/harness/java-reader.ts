/**
 * Kafka's own client as a second reader of topics: what it reads is what the log holds.
 *
 * Runs test/fault/ground-truth/ReadTopic.java from source, with the jars that infra/stack keeps in its
 * cache. Needs a JDK of 17 or newer; where there is none, or no jars, it says so and tests go by their own
 * books alone. Invariant: what it returns is a whole reading; a reading that was cut short throws.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { runTool } from '#infra/stack/one-shot.ts'

/** A record as the Java client reads it; key and value as bytes. */
export interface JavaRecord {
  partition: number
  offset: number
  key: Buffer | null
  value: Buffer | null
}

/** Which records a reading shows. */
export type Isolation = 'read_committed' | 'read_uncommitted'

/** Reads whole topics. */
export interface JavaReader {
  read(brokers: readonly string[], topic: string, isolation?: Isolation): Promise<JavaRecord[]>
}

const SOURCE = fileURLToPath(new URL('../fault/ground-truth/ReadTopic.java', import.meta.url))
const READ_LIMIT_MS = 240_000
const MEMORY = ['-Xmx512m', '-XX:+UseSerialGC', FIRST_COMPILER_ONLY]

/** The reader, or undefined where this machine cannot run it, which a line on the console tells. */
export function findJavaReader(environment: NodeJS.ProcessEnv = process.env): JavaReader | undefined {
  const launcher = findJdk(environment)
  const jars = findJars(cacheDirectory(environment))
  if (launcher === undefined || jars === undefined) {
    const missing = launcher === undefined ? 'no JDK was found (javac)' : 'no Kafka jars are in the download cache'
    console.log(`      (${missing}: the Java client does not check these readings; the tests' own books alone do)`)
    return undefined
  }
  return {
    async read(brokers, topic, isolation = 'read_committed') {
      const folder = mkdtempSync(join(tmpdir(), 'marketlog-java-'))
      const file = join(folder, 'records.tsv')
      try {
        const args = [...MEMORY, '-cp', join(jars, '*'), SOURCE, brokers.join(','), topic, isolation, file]
        const signal = AbortSignal.timeout(READ_LIMIT_MS)
        await runTool({ command: launcher, args, limitMs: READ_LIMIT_MS, signal, environment })
        return readFileSync(file, 'latin1').split('\n').filter(Boolean).map(recordOf)
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
  }
}

function recordOf(line: string): JavaRecord {
  const [partition, offset, key, value] = line.split('\t')
  const bytes = (text = '-') => (text === '-' ? null : Buffer.from(text, 'base64'))
  return { partition: Number(partition), offset: Number(offset), key: bytes(key), value: bytes(value) }
}

/** A `java` with the compiler beside it: JAVA_HOME, PATH, then /usr/lib/jvm. */
function findJdk({ JAVA_HOME, PATH = '' }: NodeJS.ProcessEnv): string | undefined {
  const system = '/usr/lib/jvm'
  const installed = existsSync(system) ? readdirSync(system).map(name => join(system, name, 'bin')) : []
  return [...(JAVA_HOME ? [join(JAVA_HOME, 'bin')] : []), ...PATH.split(delimiter), ...installed]
    .map(directory => join(directory, 'javac'))
    .filter(compiler => existsSync(compiler))
    .map(compiler => join(dirname(realpathSync(compiler)), 'java'))
    .find(launcher => existsSync(launcher))
}

function findJars(cache: string): string | undefined {
  const kept = existsSync(cache) ? readdirSync(cache).filter(name => /^kafka-[\d.]+-[0-9a-f]+$/.test(name)) : []
  const newest = kept.sort().at(-1)
  return newest === undefined ? undefined : join(cache, newest)
}
