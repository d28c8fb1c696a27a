/**
 * The servers of a test run: started once, when the first test needs them, and stopped at its end.
 *
 * With MARKETLOG_TEST_SERVERS naming a servers.json (as `test/harness/run-servers.ts` writes it) the run
 * uses those servers and stops nothing; with `none` a test that asks for a server fails. Otherwise the order is the platform's own: addresses in the
 * environment, containers where a Docker engine answers, native servers with their data in a folder of
 * its own under the system's temporary folder, wiped at the end. Invariant: one set per run, and none is left
 * running; every namespace on them belongs to one test file.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { dockerAnswers } from '#infra/stack/docker.ts'
import { provideServers, removeServerData } from '#infra/stack/servers.ts'
import { startContainers } from './containers.ts'
import { allowHandlesOf } from './open-handles.ts'

interface TestServers {
  addresses: ServerAddresses
  /** Nothing uses them after this run. */
  endWithRun: boolean
  stop(): Promise<void>
}

/** Names the servers of a run to its workers; a file that `run-servers.ts` wrote has the addresses alone. */
interface SharedServers extends ServerAddresses {
  endWithRun?: boolean
}

/** In MARKETLOG_TEST_SERVERS, where no test may ask for one. */
const NO_SERVERS = 'none'

const ADDRESS_VARIABLES = ['KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_URL', 'CLICKHOUSE_URL', 'DATABASE_URL']

let started: Promise<TestServers> | undefined

/** The addresses of the run's servers; starts them at the first call. */
export async function testServers(): Promise<ServerAddresses> {
  started ??= allowHandlesOf(() => startTestServers(process.env))
  return (await started).addresses
}

/** Whether what is left on the servers goes with them at the end of the run. */
export async function serversEndWithRun(): Promise<boolean> {
  return (await started)?.endWithRun ?? false
}

/** Starts the servers now and names them to the processes that this one will start: workers of one run share them. */
export async function shareTestServers(): Promise<void> {
  const file = join(mkdtempSync(join(tmpdir(), 'marketlog-test-servers-')), 'servers.json')
  writeFileSync(
    file,
    JSON.stringify({ ...(await testServers()), endWithRun: await serversEndWithRun() } satisfies SharedServers),
  )
  process.env.MARKETLOG_TEST_SERVERS = file
  process.once('exit', () => rmSync(dirname(file), { recursive: true, force: true }))
}

/** Stops what {@link testServers} has started, if it has. */
export async function stopTestServers(): Promise<void> {
  const servers = await started?.catch(() => undefined)
  started = undefined
  await servers?.stop()
}

async function startTestServers(env: NodeJS.ProcessEnv): Promise<TestServers> {
  const shared = env.MARKETLOG_TEST_SERVERS
  if (shared === NO_SERVERS) throw new Error('a unit test asked for a server: it belongs in test/integration')
  if (shared !== undefined) {
    const { endWithRun = false, ...addresses } = JSON.parse(readFileSync(shared, 'utf8')) as SharedServers
    return { addresses, endWithRun, stop: async () => {} }
  }
  const say = (line: string) => console.error(`  [servers] ${line}`)
  const startedAt = performance.now()
  say('starting Kafka, schema registry, Redis, ClickHouse and Postgres for this run')
  const start = await howToStart(env)
  const servers = await start(env, say)
  say(`all answer after ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  return { ...servers, endWithRun: !isAddressed(env) }
}

type Start = (env: NodeJS.ProcessEnv, say: (line: string) => void) => Promise<Omit<TestServers, 'endWithRun'>>

async function howToStart(env: NodeJS.ProcessEnv): Promise<Start> {
  return !isAddressed(env) && (await dockerAnswers(env)) ? startContainers : startProvided
}

const isAddressed = (env: NodeJS.ProcessEnv): boolean => ADDRESS_VARIABLES.some(name => env[name])

const startProvided: Start = async (env, say) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-test-'))
  const servers = await provideServers({ dataDir, environment: env, say })
  return {
    addresses: servers.addresses,
    stop: async () => {
      await servers.stop()
      const { MARKETLOG_TEST_LOGS: logs } = env
      if (logs !== undefined) cpSync(join(dataDir, 'logs'), logs, { recursive: true })
      await removeServerData(dataDir)
    },
  }
}
