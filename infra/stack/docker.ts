/**
 * The Docker way of providing servers: the services of infra/compose.yaml.
 *
 * Runs the docker client, notes the compose project in the data directory. Invariant: starts nothing unless an
 * engine answers within two seconds and has the compose plugin. Data lives in the project's named volumes. When the
 * supervisor is killed the containers go on, as they are the engine's children; the next start or
 * stopLeftovers stops them.
 */
import { createHash } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { succeeds } from '#infra/runtime/async/retry.ts'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import type { ProvideOptions, ServerName, StartedServers } from './native-start.ts'
import { runTool } from './one-shot.ts'
import { openPortBook } from './ports.ts'
import { readJson, replaceFile } from './processes.ts'
import { schemaRegistryAnswers, waitUntilReady } from './readiness.ts'
import { openSecretBook } from './secrets.ts'

const COMPOSE_FILE = fileURLToPath(new URL('../compose.yaml', import.meta.url))
const ENGINE_LIMIT_MS = 2_000
// The first start pulls the images.
const UP_LIMIT_MS = 15 * MINUTE_MS
const STOP_LIMIT_MS = MINUTE_MS
const READY_LIMIT_MS = 90_000

/** Whether a Docker engine answers; a client without an engine does not count. */
export const dockerAnswers = async (
  environment: Environment,
  signal = new AbortController().signal,
): Promise<boolean> =>
  environment.MARKETLOG_DOCKER !== 'never' &&
  (await answers(environment, signal, 'info', '--format', '{{.ServerVersion}}'))

/** Starts the named servers with docker compose; undefined when there is no Docker to do it. */
export async function startDocker(
  options: ProvideOptions & { signal: AbortSignal },
  names: ServerName[],
): Promise<StartedServers | undefined> {
  const { dataDir, environment, signal } = options
  if (!(await dockerAnswers(environment, signal))) return undefined
  if (!(await answers(environment, signal, 'compose', 'version'))) {
    options.say('Docker answers but has no compose plugin; the servers are started natively')
    return undefined
  }
  const project = `marketlog-${createHash('sha256').update(dataDir).digest('hex').slice(0, 8)}`
  const plan = await planServers(dataDir)
  const compose = (limitMs: number, ...args: string[]) =>
    runTool({
      command: 'docker',
      args: ['compose', '-f', COMPOSE_FILE, '-p', project, ...args],
      environment: { ...environment, ...plan.variables },
      limitMs,
      signal,
    })
  writeNote(dataDir, project, true)
  if (existsSync(join(dataDir, 'kafka')))
    options.say(
      `Docker is used from now on; what native servers hold in ${dataDir} stays there (MARKETLOG_DOCKER=never)`,
    )
  options.say(`starting ${names.join(', ')} with docker compose (the first time the images are pulled)`)
  try {
    const services = names.map(name => (name === 'schemaRegistry' ? 'schema-registry' : name))
    await compose(UP_LIMIT_MS, 'up', '--detach', '--wait', ...services)
    // The others are asked by compose itself; the registry's image has nothing to ask with.
    if (names.includes('schemaRegistry')) {
      const isReady = () => schemaRegistryAnswers(plan.addresses.schemaRegistry)
      await waitUntilReady({ isReady, limitMs: READY_LIMIT_MS, signal }).catch(error => {
        throw new Error(`schemaRegistry could not be started: ${error.message}`)
      })
    }
  } catch (error) {
    const log = await compose(STOP_LIMIT_MS, 'logs', '--tail', '20').catch(() => '')
    await stopProject(dataDir)
    signal.throwIfAborted()
    throw new Error(`${(error as Error).message}\n${log}`.trimEnd(), { cause: error })
  }
  return { addresses: plan.addresses, stop: async () => void (await stopProject(dataDir)) }
}

/** Stops the containers that a run of this data directory has noted; whether there was such a note. */
export async function stopProject(dataDir: string): Promise<boolean> {
  const note = readNote(dataDir)
  if (!note?.running) return false
  await runDocker('compose', '-p', note.project, 'stop')
  writeNote(dataDir, note.project, false)
  return true
}

/** Removes the containers and volumes that belong to this data directory. */
export async function removeProject(dataDir: string): Promise<void> {
  const note = readNote(dataDir)
  if (note === undefined) return
  await runDocker('compose', '-p', note.project, 'down', '--volumes')
  rmSync(join(dataDir, 'docker.json'), { force: true })
}

const readNote = (dataDir: string) => readJson<{ project: string; running: boolean }>(join(dataDir, 'docker.json'))

const writeNote = (dataDir: string, project: string, running: boolean): void =>
  replaceFile(join(dataDir, 'docker.json'), JSON.stringify({ project, running }))

const runDocker = (...args: string[]): Promise<string> =>
  runTool({ command: 'docker', args, limitMs: STOP_LIMIT_MS, signal: new AbortController().signal })

async function answers(environment: Environment, signal: AbortSignal, ...args: string[]): Promise<boolean> {
  const isAnswered = await succeeds(runTool({ command: 'docker', args, environment, limitMs: ENGINE_LIMIT_MS, signal }))
  signal.throwIfAborted()
  return isAnswered
}

/** The variables of compose.yaml, and where its servers then answer. */
async function planServers(
  dataDir: string,
): Promise<{ variables: Record<string, string>; addresses: ServerAddresses }> {
  const port = openPortBook(dataDir)
  const secret = openSecretBook(dataDir)
  const [kafka, registry, redis] = [await port('kafka'), await port('schemaRegistry'), await port('redis')]
  const [clickhouse, postgres] = [await port('clickhouse'), await port('postgres')]
  const [password, readerPassword] = [secret('docker'), secret('docker-reader')]
  return {
    variables: {
      MARKETLOG_PASSWORD: password,
      MARKETLOG_READER_PASSWORD: readerPassword,
      MARKETLOG_KAFKA_PORT: String(kafka),
      MARKETLOG_REGISTRY_PORT: String(registry),
      MARKETLOG_REDIS_PORT: String(redis),
      MARKETLOG_CLICKHOUSE_PORT: String(clickhouse),
      MARKETLOG_POSTGRES_PORT: String(postgres),
    },
    addresses: {
      kafka: [`127.0.0.1:${kafka}`],
      schemaRegistry: `http://127.0.0.1:${registry}/apis/ccompat/v7`,
      redis: `redis://:${password}@127.0.0.1:${redis}`,
      clickhouse: `http://marketlog:${password}@127.0.0.1:${clickhouse}/marketlog`,
      clickhouseReadOnly: `http://marketlog_reader:${readerPassword}@127.0.0.1:${clickhouse}/marketlog`,
      postgres: `postgres://marketlog:${password}@127.0.0.1:${postgres}/marketlog`,
    },
  }
}
