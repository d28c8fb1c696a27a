/**
 * Providing servers natively: what survives, what a failure says, and that nothing is ever left running.
 *
 * Starts servers of its own in data directories of its own; every process that is killed here was started here.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { postgresHomeElsewhere } from '#infra/stack/native/postgres.ts'
import { identify, type ProcessIdentity, readJson } from '#infra/stack/processes.ts'
import { provideServers, type RunningServers, removeServerData, stopLeftovers } from '#infra/stack/servers.ts'
import { eventually } from '#test/harness/eventually.ts'
import { processesNaming } from './own-platform.ts'

const MAIN = fileURLToPath(new URL('../harness/run-servers.ts', import.meta.url))
// Downloading comes first on a machine that has never done it.
const COLD_START_LIMIT_MS = 300_000

/** The environment of a native start: no addresses, no Docker. */
function nativeEnvironment(): Record<string, string | undefined> {
  const names = ['KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_URL', 'CLICKHOUSE_URL', 'DATABASE_URL']
  const absent = Object.fromEntries(names.map(name => [name, undefined]))
  return { ...process.env, ...absent, MARKETLOG_DOCKER: 'never' }
}

/** As above, with the two Java servers given by address, so that only the light ones start. */
function lightEnvironment(): Record<string, string | undefined> {
  return { ...nativeEnvironment(), KAFKA_BROKERS: '127.0.0.1:1', SCHEMA_REGISTRY_URL: 'http://127.0.0.1:1' }
}

const processesOf = (dataDir: string): number[] =>
  processesNaming(dataDir, postgresHomeElsewhere(dataDir) ?? dataDir).map(({ pid }) => pid)

const failureOf = (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => expect.fail('no failure'),
    error => error,
  )

function nobodyLeft(dataDir: string): Promise<boolean> {
  return eventually(() => processesOf(dataDir).length === 0, `the processes of ${dataDir} to end`)
}

describe('native servers', () => {
  const made: string[] = []
  const children: ChildProcess[] = []
  const running: RunningServers[] = []

  function newDataDir(): string {
    const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-stack-'))
    made.push(dataDir)
    return dataDir
  }

  async function start(dataDir: string, environment: Record<string, string | undefined>): Promise<RunningServers> {
    const servers = await provideServers({ dataDir, environment, say: () => {} })
    running.push(servers)
    return servers
  }

  /** Resolves when the servers of a process of their own answer. */
  async function startSupervisor(dataDir: string, detached = false): Promise<ChildProcess> {
    const child = spawn(process.execPath, [MAIN, dataDir], { env: lightEnvironment(), stdio: 'ignore', detached })
    children.push(child)
    await eventually(() => existsSync(join(dataDir, 'servers.json')), 'the servers to answer')
    return child
  }

  afterEach(async () => {
    for (const servers of running.splice(0)) await servers.stop()
    for (const child of children.splice(0)) child.kill('SIGKILL')
    for (const dataDir of made.splice(0)) {
      // A failed claim must not leave its servers to the next one.
      await stopLeftovers(dataDir)
      await nobodyLeft(dataDir)
      await removeServerData(dataDir)
    }
  })

  it('keep addresses and passwords over kill -9 and a second start', async function () {
    this.timeout(COLD_START_LIMIT_MS)
    const dataDir = newDataDir()
    const first = await start(dataDir, nativeEnvironment())
    const notes = readdirSync(join(dataDir, 'pids')).map(file => readJson<ProcessIdentity>(join(dataDir, 'pids', file)))
    expect(notes).to.have.length(5)
    for (const note of notes) process.kill(note?.pid ?? 0, 'SIGKILL')
    await first.stop()
    const second = await start(dataDir, nativeEnvironment())
    expect(second.addresses).to.deep.equal(first.addresses)
  })

  it('name the server that cannot start, quote its log and leave nothing running', async () => {
    const dataDir = newDataDir()
    const healthy = await start(dataDir, lightEnvironment())
    await healthy.stop()
    writeFileSync(join(postgresHomeElsewhere(dataDir) ?? join(dataDir, 'postgres'), 'cluster/PG_VERSION'), '7\n')

    const failure = await failureOf(start(dataDir, { ...lightEnvironment(), MARKETLOG_INSTALL: 'never' }))
    expect(failure.message).to.match(/^postgres could not be started: .*not compatible with/s)
    expect(failure.message).to.include(join(dataDir, 'logs/postgres.log'))
    expect(processesOf(dataDir)).to.deep.equal([])
  })

  it('end when their supervisor is killed, or are ended by the next stopLeftovers when they cannot', async () => {
    const dataDir = newDataDir()
    const supervisor = await startSupervisor(dataDir)
    const redis = readJson<ProcessIdentity>(join(dataDir, 'pids/redis.json')) as ProcessIdentity
    process.kill(redis.pid, 'SIGSTOP')
    supervisor.kill('SIGKILL')
    await eventually(() => processesOf(dataDir).length === 1, 'the others to end')
    expect(processesOf(dataDir)).to.deep.equal([redis.pid])

    expect(await stopLeftovers(dataDir)).to.deep.equal(['redis'])
    expect(processesOf(dataDir)).to.deep.equal([])
    expect(await stopLeftovers(dataDir)).to.deep.equal([])
  })

  it('stop and are gone when the start is aborted', async () => {
    const dataDir = newDataDir()
    const abort = new AbortController()
    const start = provideServers({ dataDir, environment: nativeEnvironment(), say: () => {}, signal: abort.signal })
    await eventually(() => existsSync(join(dataDir, 'pids/redis.json')), 'the first server to be launched')
    abort.abort(new Error('changed my mind'))
    expect((await failureOf(start)).message).to.equal('changed my mind')
    expect(processesOf(dataDir)).to.deep.equal([])
  })

  it('are not reached by Ctrl-C, which their supervisor answers by stopping them', async () => {
    const dataDir = newDataDir()
    const supervisor = await startSupervisor(dataDir, true)
    // A terminal sends it to the whole foreground group.
    process.kill(-(supervisor.pid as number), 'SIGINT')
    await nobodyLeft(dataDir)
    await eventually(() => supervisor.exitCode === 0, 'the supervisor to end without a fault')
    const redisLog = readFileSync(join(dataDir, 'logs/redis.log'), 'utf8')
    expect(redisLog).to.include('Received SIGTERM').and.not.include('Received SIGINT')
    expect(existsSync(join(dataDir, 'servers.json'))).to.equal(false)
  })

  it('belong to one supervisor at a time', async () => {
    const dataDir = newDataDir()
    const supervisor = await startSupervisor(dataDir)
    const before = processesOf(dataDir)
    const second = await failureOf(start(dataDir, lightEnvironment()))
    expect(second.message).to.include(`already run by process ${supervisor.pid}`)
    expect(await stopLeftovers(dataDir)).to.deep.equal([])
    expect(processesOf(dataDir)).to.deep.equal(before)
    supervisor.kill('SIGTERM')
    await nobodyLeft(dataDir)
  })
})

describe('stopLeftovers', () => {
  it('ends the process that was noted and never one that merely got its pid', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-stack-'))
    const stranger = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' })
    try {
      const identity = identify(stranger.pid as number) as ProcessIdentity
      mkdirSync(join(dataDir, 'pids'))
      const note = (content: ProcessIdentity) =>
        writeFileSync(
          join(dataDir, 'pids/redis.json'),
          JSON.stringify({ ...content, stopSignal: 'SIGTERM', graceMs: 1_000 }),
        )

      note({ ...identity, startTick: String(Number(identity.startTick) - 1) })
      expect(await stopLeftovers(dataDir)).to.deep.equal([])
      note({ ...identity, boot: '00000000-0000-0000-0000-000000000000' })
      expect(await stopLeftovers(dataDir)).to.deep.equal([])
      expect(identify(identity.pid)).to.deep.equal(identity)

      note(identity)
      expect(await stopLeftovers(dataDir)).to.deep.equal(['redis'])
      expect(identify(identity.pid)).to.equal(undefined)
    } finally {
      stranger.kill('SIGKILL')
      rmSync(dataDir, { recursive: true })
    }
  })
})

describe('servers given by address', () => {
  it('are taken as they are, and nothing is started or written', async () => {
    const dataDir = join(tmpdir(), `marketlog-stack-${crypto.randomUUID()}`)
    const environment = {
      KAFKA_BROKERS: 'one:9092, two:9092',
      SCHEMA_REGISTRY_URL: 'http://registry:8081',
      REDIS_URL: 'redis://cache:6379',
      CLICKHOUSE_URL: 'http://columns:8123',
      DATABASE_URL: 'postgres://rows:5432/marketlog',
    }
    const servers = await provideServers({ dataDir, environment, say: () => {} })
    expect(servers.addresses).to.deep.equal({
      kafka: ['one:9092', 'two:9092'],
      schemaRegistry: 'http://registry:8081',
      redis: 'redis://cache:6379',
      clickhouse: 'http://columns:8123',
      clickhouseReadOnly: 'http://columns:8123',
      postgres: 'postgres://rows:5432/marketlog',
    })
    await servers.stop()
    expect(existsSync(dataDir)).to.equal(false)
  })
})
