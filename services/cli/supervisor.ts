/**
 * Runs the whole platform on this machine: servers, set-up, one process for each group of roles.
 *
 * States: starting -> live -> stopping -> ended; a failure goes to stopping from anywhere. Everything that is started
 * registers how it is undone, and the undoing runs in reverse order whatever happened: after this returns or
 * throws, nothing of it is left running. Invariant: at most one supervisor per run directory; what a killed one left behind is
 * ended before anything starts. `platform.json` exists exactly while the platform is live.
 */
import { createServer } from 'node:net'
import { type PlatformConfig, readConfig, type ServerAddresses } from '#infra/runtime/config.ts'
import { collectGarbage } from '#infra/runtime/heap.ts'
import { openLog } from '#infra/runtime/log.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { acquireOwnership, endNotedProcesses } from '#infra/stack/owner.ts'
import { provideServers } from '#infra/stack/servers.ts'
import { STAND_IN_PATH } from '#services/inventory/main.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { publishCurrentRates } from './ingest.ts'
import { originOf, untilLive, untilReady } from './live-check.ts'
import type { Steps } from './progress.ts'
import { linkStandIn, provideKeys } from './provide-keys.ts'
import { keepRunning, type RoleProcess, type RoleProcessOptions } from './role-process.ts'
import { GROUPS, isRoleThat } from './roles.ts'
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
  /** Called once prices are live, or the platform is ready when its market has no feeds. */
  onLive: (platform: PlatformFile) => void
  signal: AbortSignal
}

const EMPTY_MARKET = 'empty'

/** Runs the platform until the signal aborts; throws when it cannot start or a part of it is lost for good. */
export async function supervise(options: SuperviseOptions): Promise<void> {
  const undo = new AsyncDisposableStack()
  const lost = new AbortController()
  const signal = AbortSignal.any([options.signal, lost.signal])
  try {
    options.onLive(await start({ ...options, signal }, undo, error => lost.abort(error)))
    await new Promise(resolve => {
      if (signal.aborted) resolve(undefined)
      signal.addEventListener('abort', resolve, { once: true })
    })
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

async function start(
  options: SuperviseOptions,
  undo: AsyncDisposableStack,
  lose: (error: Error) => void,
): Promise<PlatformFile> {
  const { directory, progress, signal } = options
  prepareRunDirectory(directory)
  undo.defer(await acquireOwnership(directory.supervisor))
  dropAnnouncements(directory)
  progress.step('looking for what an earlier run left')
  const leftovers = await endNotedProcesses(directory.supervisor)
  if (leftovers.length > 0) progress.note(`ended what an earlier run had left: ${leftovers.join(', ')}`)
  await refuseBusyPort(options.environment)
  writePrivate(directory.settingsFile, settingsOf(options.environment))

  // Sign-in and mail work out of the box on a machine of one's own; they start while the servers do.
  const standIns = startStandIns(options.environment, directory, baseUrlOf(options.environment))
  undo.defer(async () => (await standIns)?.stop())
  const addresses = await startServers(options, undo, lose)
  const environment = { ...platformEnvironment(options, addresses), ...(await standIns)?.variables }
  const config = readConfig(environment)
  const log = openLog({ level: config.logLevel, name: 'marketlog' })
  await setUp(config, log, { onPart: part => progress.step(`setting up: ${part}`) })
  if (config.market === EMPTY_MARKET) await publishCurrentRates(config, log, signal)
  signal.throwIfAborted()
  const keys = await provideKeys(config, log, directory)
  if (config.market !== EMPTY_MARKET) await linkStandIn(config, log, keys.quant)
  let announce = (): void => {}
  const processes = startGroups(options, environment, undo, { onGivenUp: lose, onListening: () => announce() })
  undo.defer(() => {
    announce = () => {}
    dropAnnouncements(directory)
  })
  const check = { config, processes, log, key: keys.quant, progress, signal }
  await untilReady(check)
  if (config.market !== EMPTY_MARKET) await untilLive(check)
  // A role that is started again has another process, and mostly another port.
  announce = () => writePrivate(directory.platformFile, describe(config, keys, processes, addresses))
  announce()
  // The set-up has left much, and nothing follows that would have it collected.
  collectGarbage()
  return describe(config, keys, processes, addresses)
}

/** On one machine the user waits for the start, and roles start beside the broker; the environment overrides these. */
const SERVER_OPTIONS = { KAFKA_JVM_PERFORMANCE_OPTS: FIRST_COMPILER_ONLY }

/** One that ends is started again, and one that does not come back ends the platform. */
async function startServers(
  options: SuperviseOptions,
  undo: AsyncDisposableStack,
  lose: (error: Error) => void,
): Promise<ServerAddresses> {
  const { directory, progress } = options
  progress.step('starting the servers')
  let haveStarted = false
  const servers = await provideServers({
    dataDir: directory.servers,
    environment: { ...SERVER_OPTIONS, ...options.environment },
    say: line => (haveStarted ? progress.note(line) : progress.step(`starting the servers: ${line}`)),
    signal: options.signal,
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
function platformEnvironment(options: SuperviseOptions, addresses: ServerAddresses): Environment {
  const { directory, environment } = options
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
  options: SuperviseOptions,
  environment: Environment,
  undo: AsyncDisposableStack,
  listeners: Pick<RoleProcessOptions, 'onGivenUp' | 'onListening'>,
): RoleProcess[] {
  const hasStandIn = environment.MARKETLOG_INVENTORY_URL?.endsWith(STAND_IN_PATH) ?? false
  const isEmpty = environment.MARKET === EMPTY_MARKET
  const groups = GROUPS.map(({ name, roles }) => ({
    name,
    roles: roles.filter(role => (hasStandIn || !isRoleThat('isStandIn', role)) && !(isEmpty && role === 'ingest')),
  }))
  const processes = groups.map(group => {
    const serves = group.roles.some(role => isRoleThat('serves', role))
    return keepRunning({
      group,
      environment: serves ? environment : { ...environment, ...ANY_PORTS, BASE_URL: baseUrlOf(environment) },
      directory: options.directory,
      report: text => options.progress.note(text),
      ...listeners,
    })
  })
  // Groups depend on the servers alone, never on each other: they may end at once.
  undo.defer(async () => {
    options.progress.step('stopping the roles')
    await Promise.all([...processes].reverse().map(each => each.stop()))
    options.progress.step('stopping the servers')
  })
  return processes
}

const ANY_PORTS: Environment = { PORT: '0', OPERATOR_PORT: '0' }

const baseUrlOf = (environment: Environment): string =>
  environment.BASE_URL || `http://127.0.0.1:${environment.PORT || '8080'}`

function describe(
  config: PlatformConfig,
  keys: PlatformFile['keys'],
  processes: readonly RoleProcess[],
  servers: ServerAddresses,
): PlatformFile {
  const services = processes.flatMap(each =>
    each.group.roles.map(role => {
      const { port = 0, operatorPort = 0 } = each.ports() ?? {}
      const url = originOf(config.host, port)
      const entry = {
        ...{ process: each.group.name, pid: each.pid() ?? 0, url },
        operator_url: originOf(config.operatorHost, operatorPort),
      }
      return [role, entry] as const
    }),
  )
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

/** A port in use is reported before anything has been started. */
async function refuseBusyPort(environment: Environment): Promise<void> {
  const port = Number(environment.PORT || '8080')
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new CommandFailure(`PORT must be 1 to 65535, not ${environment.PORT}`, exitCodes.usage)
  }
  await new Promise<void>((resolve, reject) => {
    const probe = createServer()
    probe.once('error', error =>
      reject(
        new CommandFailure(
          `port ${port} cannot be used (${(error as NodeJS.ErrnoException).code}). Choose another one: make demo PORT=${port + 1}`,
          exitCodes.cannotCreate,
        ),
      ),
    )
    probe.listen({ port, host: environment.HOST || '127.0.0.1', exclusive: true }, () => probe.close(() => resolve()))
  })
}
