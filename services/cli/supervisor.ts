/**
 * Runs the whole platform on this machine: servers, set-up, one process for each group of roles.
 *
 * States: starting -> live -> stopping -> ended; a failure goes to stopping from anywhere. Everything that is started
 * registers how it is undone, and the undoing runs in reverse order whatever happened: after this returns or
 * throws, nothing of it is left running. Invariant: at most one supervisor per run directory; what a killed one left behind is
 * ended before anything starts. `platform.json` exists exactly while the platform is live.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { type PlatformConfig, readConfig, type ServerAddresses } from '#infra/runtime/config.ts'
import { collectGarbage } from '#infra/runtime/heap.ts'
import { openLog } from '#infra/runtime/log.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { acquireOwnership, endNotedProcesses } from '#infra/stack/owner.ts'
import { provideServers } from '#infra/stack/servers.ts'
import { STAND_IN_PATH } from '#services/inventory/main.ts'
import { provideKeys } from './accounts.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { publishCurrentRates } from './ingest.ts'
import { originOf, untilLive, untilReady } from './live-check.ts'
import type { Steps } from './progress.ts'
import { keepRunning, type RoleProcess } from './role-process.ts'
import { GROUPS, isRoleThat, type RoleName } from './roles.ts'
import {
  cursorKey,
  dropAnnouncements,
  type PlatformFile,
  prepareRunDirectory,
  type RunDirectory,
  secretKey,
  writePrivate,
} from './run-directory.ts'
import { setUp } from './set-up.ts'
import { addressVariables, settingsOf, settleEnvironment } from './settle-environment.ts'
import { startStandIns } from './stand-ins.ts'

interface SuperviseOptions {
  environment: Environment
  directory: RunDirectory
  progress: Steps
  signal: AbortSignal
}

interface Run extends SuperviseOptions {
  undo: AsyncDisposableStack
  /** Ends the platform: a part of it is lost for good. */
  lose(error: Error): void
}

const EMPTY_MARKET = 'empty'

/**
 * Runs the platform until the signal aborts; throws when it cannot start or a part of it is lost for good. Calls `onLive` once
 * prices are live, or the platform is ready when its market has no feeds.
 */
export async function supervise(options: SuperviseOptions, onLive: (platform: PlatformFile) => void): Promise<void> {
  const undo = new AsyncDisposableStack()
  const lost = new AbortController()
  const signal = AbortSignal.any([options.signal, lost.signal])
  try {
    onLive(await start({ ...options, signal, undo, lose: error => lost.abort(error) }))
    if (!signal.aborted) await once(signal, 'abort')
    if (lost.signal.aborted) throw lost.signal.reason
  } catch (error) {
    // A stop in the middle of starting is no failure of the platform.
    if (!options.signal.aborted) throw lost.signal.aborted ? lost.signal.reason : error
  } finally {
    await undo.disposeAsync().catch(cause => {
      throw new Error('not everything could be stopped; run `make down`', { cause })
    })
  }
}

async function start(run: Run): Promise<PlatformFile> {
  const { directory, progress, signal, undo } = run
  prepareRunDirectory(directory)
  undo.defer(await acquireOwnership(directory.supervisor))
  dropAnnouncements(directory)
  progress.step('looking for what an earlier run left')
  const leftovers = await endNotedProcesses(directory.supervisor)
  if (leftovers.length > 0) progress.note(`ended what an earlier run had left: ${leftovers.join(', ')}`)
  await refuseBusyPort(run.environment)
  writePrivate(directory.settingsFile, settingsOf(run.environment))

  // Sign-in and mail work out of the box on a machine of one's own; they start while the servers do.
  const standIns = startStandIns(run.environment, directory, baseUrlOf(run.environment))
  undo.defer(async () => (await standIns)?.stop())
  const addresses = await startServers(run)
  const environment = { ...platformEnvironment(run, addresses), ...(await standIns)?.variables }
  const config = readConfig(environment)
  const log = openLog({ level: config.logLevel, name: 'marketlog' })
  await setUp(config, log, { onPart: part => progress.step(`setting up: ${part}`) })
  if (config.market === EMPTY_MARKET) await publishCurrentRates(config, log, signal)
  signal.throwIfAborted()
  const keys = await provideKeys(config, log, directory)
  let isLive = false
  const announce = (): PlatformFile => {
    const platform = describe(config, keys, processes, addresses)
    // A role that is started again has another process, and mostly another port.
    if (isLive) writePrivate(directory.platformFile, platform)
    return platform
  }
  const processes = startGroups(run, environment, announce)
  undo.defer(() => {
    isLive = false
    dropAnnouncements(directory)
  })
  const check = { config, processes, log, key: keys.quant, progress, signal }
  await untilReady(check)
  if (config.market !== EMPTY_MARKET) await untilLive(check)
  isLive = true
  // The set-up has left much, and nothing follows that would have it collected.
  collectGarbage()
  return announce()
}

/** One that ends is started again, and one that does not come back ends the platform. */
async function startServers({ directory, environment, progress, signal, undo, lose }: Run): Promise<ServerAddresses> {
  progress.step('starting the servers')
  let haveStarted = false
  const servers = await provideServers({
    dataDir: directory.servers,
    // The user waits for the start, and roles start beside the broker.
    environment: { KAFKA_JVM_PERFORMANCE_OPTS: FIRST_COMPILER_ONLY, ...environment },
    say: line => (haveStarted ? progress.note(line) : progress.step(`starting the servers: ${line}`)),
    signal,
    onLost: (name, error) =>
      lose(new CommandFailure(`${name} has ended and does not come back, and the platform ends. ${error.message}`)),
  })
  haveStarted = true
  undo.defer(() => servers.stop())
  undo.defer(() => dropAnnouncements(directory))
  writePrivate(directory.serversFile, servers.addresses)
  return servers.addresses
}

/** Children get everything by environment, as any role on any machine does. */
function platformEnvironment({ directory, environment }: Run, addresses: ServerAddresses): Environment {
  const local = {
    servers: addresses,
    stateDir: directory.state,
    cursorKey: cursorKey(directory),
    secretKey: secretKey(directory),
  }
  const settled = { ...settleEnvironment(environment, local, true), ...addressVariables(addresses) }
  // Its own stand-in where the user names no platform: a development platform reaches no network.
  const standIn = `http://127.0.0.1:${settled.PORT}${STAND_IN_PATH}`
  // Several platforms of one machine must not want the same port; each announces its own.
  const operator = { OPERATOR_PORT: environment.OPERATOR_PORT || '0' }
  // A simulated market is a matter of development: elsewhere none runs unless it is named.
  const market = { MARKET: environment.MARKET || 'demo' }
  return { ...settled, ...operator, ...market, MARKETLOG_INVENTORY_URL: environment.MARKETLOG_INVENTORY_URL || standIn }
}

function startGroups(
  { directory, progress, undo, lose }: Run,
  environment: Environment,
  onListening: () => void,
): RoleProcess[] {
  const hasStandIn = environment.MARKETLOG_INVENTORY_URL?.endsWith(STAND_IN_PATH) ?? false
  const isRun = (role: RoleName): boolean =>
    role === 'ingest' ? environment.MARKET !== EMPTY_MARKET : hasStandIn || !isRoleThat('isStandIn', role)
  const groups = GROUPS.map(({ name, roles }) => ({ name, roles: roles.filter(isRun) }))
  const elsewhere = { ...environment, PORT: '0', OPERATOR_PORT: '0', BASE_URL: baseUrlOf(environment) }
  const processes = groups.map(group =>
    keepRunning({
      group,
      environment: group.roles.some(role => isRoleThat('serves', role)) ? environment : elsewhere,
      directory,
      onListening,
      onGivenUp: lose,
      report: progress.note,
    }),
  )
  // Groups depend on the servers alone, never on each other: they may end at once.
  undo.defer(async () => {
    progress.step('stopping the roles')
    await Promise.all([...processes].reverse().map(each => each.stop()))
    progress.step('stopping the servers')
  })
  return processes
}

const baseUrlOf = (environment: Environment): string =>
  environment.BASE_URL || `http://127.0.0.1:${environment.PORT || '8080'}`

function describe(
  config: PlatformConfig,
  keys: PlatformFile['keys'],
  processes: readonly RoleProcess[],
  servers: ServerAddresses,
): PlatformFile {
  const services = processes.flatMap(({ group, ports, pid }) => {
    const { port = 0, operatorPort = 0 } = ports() ?? {}
    const [url, operator_url] = [originOf(config.host, port), originOf(config.operatorHost, operatorPort)]
    return group.roles.map(role => [role, { process: group.name, pid: pid() ?? 0, url, operator_url }] as const)
  })
  return {
    base_url: config.baseUrl,
    market: config.market,
    keys,
    services: Object.fromEntries(services),
    servers: {
      kafka: servers.kafka.join(','),
      schema_registry: servers.schemaRegistry,
      redis: servers.redis,
      clickhouse: servers.clickhouse,
      clickhouse_read_only: servers.clickhouseReadOnly,
      postgres: servers.postgres,
    },
  }
}

async function refuseBusyPort(environment: Environment): Promise<void> {
  const port = Number(environment.PORT || '8080')
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new CommandFailure(`PORT must be 1 to 65535, not ${environment.PORT}`, exitCodes.usage)
  }
  const probe = createServer().listen({ port, host: environment.HOST || '127.0.0.1', exclusive: true })
  await once(probe, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new CommandFailure(
      `port ${port} cannot be used (${error.code}). Choose another one: make demo PORT=${port + 1}`,
      exitCodes.cannotCreate,
    )
  })
  await new Promise(resolve => probe.close(resolve))
}
