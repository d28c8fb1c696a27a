/**
 * Builds the Kafka Streams program with Maven, once for its sources.
 *
 * Writes `kafka-streams-book-<digest of the sources>` below the download cache: the program's jar and those that it
 * needs. Invariant: such a folder exists only complete, since it is renamed at the end; afterwards no Maven, JDK or
 * network is needed, only a Java runtime.
 */
import { createHash } from 'node:crypto'
import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { provideJava, runMaven } from '#infra/stack/java.ts'
import type { ToolContext } from '#infra/stack/native/native-server.ts'
import { installPackages } from '#infra/stack/system-packages.ts'
import { findJdk } from '#test/harness/java-reader.ts'

export interface BuiltProgram {
  launcher: string
  classPath: string
}

const LOWEST_JAVA = 17
const NEEDS_JDK = 'a JDK of version 17 or newer (`javac`) is needed to build it'

export async function provideStreamsBook(context: ToolContext): Promise<BuiltProgram> {
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
