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
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { runTool } from './one-shot.ts'
import { openPortBook } from './ports.ts'
import { readJson, replaceFile } from './processes.ts'
import { sayWhile } from './progress.ts'
import {
  askClickhouse,
  kafkaAnswers,
  postgresAnswers,
  redisAnswers,
  schemaRegistryAnswers,
  waitUntilReady,
} from './readiness.ts'
import type { ProvideOptions, ServerName, StartedServers } from './running-servers.ts'
import { openSecretBook } from './secrets.ts'

const COMPOSE_FILE = fileURLToPath(new URL('../compose.yaml', import.meta.url))
const ENGINE_LIMIT_MS = 2_000
// The first start pulls the images.
const UP_LIMIT_MS = 15 * MINUTE_MS
const STOP_LIMIT_MS = MINUTE_MS
const READY_LIMIT_MS = 90_000

const SERVICES: Record<ServerName, string> = {
  kafka: 'kafka',
  schemaRegistry: 'schema-registry',
  redis: 'redis',
  clickhouse: 'clickhouse',
  postgres: 'postgres',
}

interface DockerNote {
  project: string
  running: boolean
}

/** Whether a Docker engine answers; a client without an engine does not count. */
export async function dockerAnswers(
  environment: Record<string, string | undefined>,
  signal: AbortSignal = new AbortController().signal,
): Promise<boolean> {
  if (environment.MARKETLOG_DOCKER === 'never') return false
  const args = ['info', '--format', '{{.ServerVersion}}']
  return succeeds({ command: 'docker', args, environment, limitMs: ENGINE_LIMIT_MS, signal })
}

/** Starts the named servers with docker compose; undefined when there is no Docker to do it. */
export async function startDocker(
  options: ProvideOptions & { signal: AbortSignal },
  names: ServerName[],
): Promise<StartedServers | undefined> {
  const { dataDir, environment, signal } = options
  if (!(await dockerAnswers(environment, signal))) return undefined
  const version = { command: 'docker', args: ['compose', 'version'], environment, limitMs: ENGINE_LIMIT_MS, signal }
  if (!(await succeeds(version))) {
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
  note(dataDir, { project, running: true })
  if (existsSync(join(dataDir, 'kafka')))
    options.say(
      `Docker is taken from now on; what native servers hold in ${dataDir} stays there (MARKETLOG_DOCKER=never)`,
    )
  options.say(`starting ${names.join(', ')} with docker compose (the first time the images are pulled)`)
  try {
    await sayWhile(options.say, 'docker compose up', () =>
      compose(UP_LIMIT_MS, 'up', '--detach', '--wait', ...names.map(name => SERVICES[name])),
    )
    await Promise.all(
      names.map(name => {
        const say = (line: string) => options.say(`${name}: ${line}`)
        return waitUntilReady({ isReady: plan.isReady[name], limitMs: READY_LIMIT_MS, say, signal }).catch(error => {
          throw new Error(`${name} could not be started: ${error.message}`)
        })
      }),
    )
  } catch (error) {
    const log = await compose(STOP_LIMIT_MS, 'logs', '--tail', '20').catch(() => '')
    await stopProject(dataDir)
    signal.throwIfAborted()
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${log}`.trimEnd(), { cause: error })
  }
  return {
    addresses: plan.addresses(names),
    pids: {},
    restart: restartedByDocker,
    stop: () => stopProject(dataDir).then(() => {}),
  }
}

/** Docker's own processes are not ours to look after. */
async function restartedByDocker(name: string): Promise<void> {
  throw new Error(`${name} runs in Docker; start its container again`)
}

/** Stops the containers that a run of this data directory has noted; whether there was such a note. */
export async function stopProject(dataDir: string): Promise<boolean> {
  const projectNote = readJson<DockerNote>(join(dataDir, 'docker.json'))
  if (projectNote === undefined || !projectNote.running) return false
  await runDocker('compose', '-p', projectNote.project, 'stop')
  note(dataDir, { ...projectNote, running: false })
  return true
}

/** Removes the containers and volumes that belong to this data directory. */
export async function removeProject(dataDir: string): Promise<void> {
  const projectNote = readJson<DockerNote>(join(dataDir, 'docker.json'))
  if (projectNote === undefined) return
  await runDocker('compose', '-p', projectNote.project, 'down', '--volumes')
  rmSync(join(dataDir, 'docker.json'), { force: true })
}

function note(dataDir: string, content: DockerNote): void {
  replaceFile(join(dataDir, 'docker.json'), JSON.stringify(content))
}

async function runDocker(...args: string[]): Promise<void> {
  const signal = new AbortController().signal
  await runTool({ command: 'docker', args, limitMs: STOP_LIMIT_MS, signal })
}

async function succeeds(run: Parameters<typeof runTool>[0]): Promise<boolean> {
  try {
    await runTool(run)
    return true
  } catch {
    run.signal.throwIfAborted()
    return false
  }
}

interface DockerPlan {
  variables: Record<string, string>
  isReady: Record<ServerName, () => Promise<boolean>>
  addresses(names: ServerName[]): Partial<ServerAddresses>
}

async function planServers(dataDir: string): Promise<DockerPlan> {
  const port = openPortBook(dataDir)
  const secret = openSecretBook(dataDir)
  const [kafka, registry, redis] = [await port('kafka'), await port('schemaRegistry'), await port('redis')]
  const [clickhouse, postgres] = [await port('clickhouse'), await port('postgres')]
  const [password, readerPassword] = [secret('docker'), secret('docker-reader')]
  const registryBase = `http://127.0.0.1:${registry}/apis/ccompat/v7`
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
    isReady: {
      kafka: () => kafkaAnswers(kafka),
      schemaRegistry: () => schemaRegistryAnswers(registryBase),
      redis: () => redisAnswers(redis),
      clickhouse: async () => (await askClickhouse(clickhouse, 'marketlog', password, 'SELECT 1')) !== undefined,
      postgres: () => postgresAnswers(postgres, 'marketlog', 'marketlog'),
    },
    addresses: names => {
      const all: ServerAddresses = {
        kafka: [`127.0.0.1:${kafka}`],
        schemaRegistry: registryBase,
        redis: `redis://:${password}@127.0.0.1:${redis}`,
        clickhouse: `http://marketlog:${password}@127.0.0.1:${clickhouse}/marketlog`,
        clickhouseReadOnly: `http://marketlog_reader:${readerPassword}@127.0.0.1:${clickhouse}/marketlog`,
        postgres: `postgres://marketlog:${password}@127.0.0.1:${postgres}/marketlog`,
      }
      const addressNames = new Set<string>(names.includes('clickhouse') ? [...names, 'clickhouseReadOnly'] : names)
      return Object.fromEntries(Object.entries(all).filter(([name]) => addressNames.has(name)))
    },
  }
}
