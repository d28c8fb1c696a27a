/**
 * The command line `marketlog`: the one place that reads the environment, and the composition root of all services.
 *
 * Standard output carries results, standard error progress and logs. A failure that the user can do
 * something about is one line and an exit code; anything else is a bug and shows its stack.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { TIERS, type Tier } from '#infra/config/tiers.ts'
import { type PlatformConfig, readConfig } from '#infra/runtime/config.ts'
import { readEnvironment } from '#infra/runtime/environment.ts'
import { type Log, openLog } from '#infra/runtime/log.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import { CommandFailure, exitCodes, isUnreachable, messageOf } from './command-failure.ts'
import { addLogTools } from './log-tools/commands.ts'
import { endWithReader } from './log-tools/output.ts'
import type { RoleName } from './roles.ts'
import { cursorKey, prepareRunDirectory, readPlatform, readServers, runDirectory, secretKey } from './run-directory.ts'
import { runningSupervisor } from './running-supervisor.ts'
import { settleEnvironment } from './settle-environment.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const environment = readEnvironment()
const directory = runDirectory(environment)

/** Settings of a command that works on running servers; loading a command's own code waits until it is asked for. */
function connect({ lives = false, serves = false } = {}): { config: PlatformConfig; log: Log } {
  if (!lives) endWithReader(process.stdout)
  // The addresses that a killed platform has left are of no server.
  const servers = runningSupervisor(directory) && readServers(directory)
  if (lives || serves) prepareRunDirectory(directory)
  const local = {
    servers,
    stateDir: directory.state,
    cursorKey: serves ? cursorKey(directory) : undefined,
    secretKey: lives || serves ? secretKey(directory) : undefined,
    market: servers && readPlatform(directory)?.market,
  }
  let config: PlatformConfig
  try {
    config = readConfig(settleEnvironment(environment, local, serves))
  } catch (error) {
    throw error instanceof CommandFailure ? error : new CommandFailure(messageOf(error), exitCodes.serverUnavailable)
  }
  // Progress shows what a short command does; of its log only failures are of interest.
  const level = lives ? config.logLevel : environment.LOG_LEVEL || 'warn'
  return { config, log: openLog({ level, name: 'marketlog' }) }
}

const program = new Command('marketlog')
  .description("Event-sourced streaming platform for the market of one game's tradable items.")
  .option('-V, --version', 'show the version, and the commit of a checkout')
  .on('option:version', () => {
    process.stdout.write(`${versionText(environment)}\n`)
    process.exit()
  })
  .showHelpAfterError('(marketlog --help shows the commands)')
  .exitOverride()

program
  .command('run')
  .argument('[role...]', 'roles to run in this process; all of them when none is named')
  .addOption(new Option('--set-up-done', 'the servers are set up already').hideHelp())
  .description('run roles in this process, on the servers of `make up` or of the environment')
  .action(async (names: string[], options: { setUpDone?: boolean }) => {
    const { chooseRoles, SERVING_ROLES } = await import('./roles.ts')
    let roles: RoleName[]
    try {
      roles = chooseRoles(names)
    } catch (error) {
      throw new CommandFailure(messageOf(error), exitCodes.usage)
    }
    const { config, log } = connect({ lives: true, serves: roles.some(role => SERVING_ROLES.includes(role)) })
    await runCommand(roles, config, log, options.setUpDone ?? false)
  })

program
  .command('up')
  .description('start the servers and all roles; used by `make up`')
  .addOption(new Option('--detach', 'in the background; returns once prices are live').conflicts('foreground'))
  .option('--foreground', 'in this terminal (default)')
  .action(async (options: { detach?: boolean }) => {
    const { upDetached, upForeground } = await import('./up.ts')
    if (!options.detach) return upForeground(directory, environment)
    const platform = await upDetached(directory, environment)
    const { describePlatform } = await import('./sample-calls.ts')
    const { findSampleItem } = await import('./live-check.ts')
    const item = await findSampleItem(platform.base_url, platform.keys.quant)
    process.stdout.write(`${describePlatform(platform, item)}\n\`make down\` stops it\n`)
  })

program
  .command('demo')
  .description('start everything in this terminal, show sample calls; Ctrl-C stops all of it')
  .action(async () => {
    const { demo } = await import('./demo.ts')
    await demo(directory, environment)
  })

program
  .command('down')
  .description('stop the platform and its servers; data stays')
  .action(async () => {
    const { endPlatform } = await import('./running-supervisor.ts')
    const ended = await withProgress('stopping the platform', () => endPlatform(directory))
    console.error(ended.length === 0 ? 'nothing was running' : `stopped: ${ended.join(', ')}`)
  })

program
  .command('clean')
  .description('stop the platform and remove its data, logs and keys')
  .action(async () => {
    const { wipePlatform } = await import('./running-supervisor.ts')
    await withProgress('stopping and removing', () => wipePlatform(directory))
    console.error(`removed what ${directory.root} held`)
  })

program
  .command('lag')
  .description('how far each consumer group is behind the log')
  .option('--wait', "wait until every view reflects the log's end of now; exit code 1 when the limit is reached")
  .option('--timeout <seconds>', 'limit of --wait', positiveNumber, 300)
  .option('--json', 'JSON lines on a terminal too')
  .action(async (options: { wait?: boolean; timeout: number; json?: boolean }) => {
    const { config, log } = connect()
    const { showLag, waitForLag } = await import('./lag.ts')
    if (options.wait) await waitForLag(config, log, options.timeout)
    else await showLag(config, log, process.stdout, options)
  })

program
  .command('keys')
  .description('API keys')
  .command('create')
  .description('create an account and print its key, which is shown this once')
  .addOption(new Option('--tier <tier>', 'tier of the account').choices(TIERS).makeOptionMandatory())
  .option('--name <name>', 'name of the account')
  .option('--email <address>', 'e-mail address of the account, taken as verified')
  .action(async (options: { tier: Tier; name?: string; email?: string }) => {
    const { config, log } = connect()
    const { createKey } = await import('./provide-keys.ts')
    await createKey(config, log, options, process.stdout)
  })

program
  .command('audit')
  .description('the security audit log: sign-ins, keys, addresses, webhooks, refused credentials')
  .option('--account <id>', 'of one account')
  .option('--kind <kind>', 'of one kind, for example `key.reissued`')
  .option('--days <days>', 'how far back', positiveNumber, 7)
  .option('--limit <entries>', 'the latest so many', positiveNumber, 100)
  .option('--json', 'JSON lines on a terminal too')
  .action(async (options: { account?: string; kind?: string; days: number; limit: number; json?: boolean }) => {
    const { config, log } = connect()
    const { showAuditLog } = await import('./audit.ts')
    await showAuditLog(config, log, process.stdout, options)
  })

const ingest = program.command('ingest').description('publish data from outside')

ingest
  .command('recorded')
  .description('publish recorded refreshes in time order; exits when the log holds them')
  .requiredOption('--provider <key>', 'provider key, for example `provider_02`')
  .requiredOption('--dir <dir>', 'folder of *.json.gz files')
  .addOption(new Option('--side <side>', 'what the prices are').choices(['ask', 'bid']).default('ask'))
  .action(async (options: { provider: string; dir: string; side: 'ask' | 'bid' }) => {
    const { config, log } = connect()
    const { ingestFolder } = await import('./ingest.ts')
    await ingestFolder(config, log, options)
  })

ingest
  .command('history')
  .description('publish the daily closes of a history file; exits when the log holds them')
  .requiredOption(
    '--file <file>',
    'CSV of market_hash_name, date, price_minor or price, currency, listings; also gzipped',
  )
  .option('--provider <key>', 'whose closes they are; the first provider with prices in that currency when left out')
  .action(async (options: { file: string; provider?: string }) => {
    const { config, log } = connect()
    const { ingestHistoryFile } = await import('./ingest.ts')
    await ingestHistoryFile(config, log, options)
  })

program
  .command('acls')
  .argument('[role...]', 'roles, `setup` (makes topics) or `cli` (the tools); all of them when none is named')
  .description('the rights that each role needs on Kafka, a JSON line each')
  .option('--principal <principal>', 'who gets them; {role} is replaced by the role', 'User:marketlog-{role}')
  .option('--apply', 'give them; needs the right to alter the cluster', false)
  .action(async (roles: string[], options: { principal: string; apply: boolean }) => {
    const { config, log } = connect()
    const { showAcls } = await import('./acls.ts')
    await showAcls(config, log, { roles, ...options }, process.stdout)
  })

addLogTools(program, connect)

async function runCommand(roles: readonly RoleName[], config: PlatformConfig, log: Log, setUpDone: boolean) {
  const { listenForStop } = await import('./stop-signals.ts')
  const stop = listenForStop()
  process.once('disconnect', () => stop.abort(new Error('the supervisor is gone')))
  // A process that is refused before its roles run must end: the channel to its supervisor would keep it.
  process.channel?.unref()
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, error => {
      log.fatal({ err: error }, 'a bug; the process ends')
      process.exit(exitCodes.bug)
    })
  }
  const { connectKafka } = await import('#infra/kafka/connection.ts')
  const { checkAccess } = await import('#infra/kafka/refusal.ts')
  const { checkStores } = await import('./check-stores.ts')
  await Promise.all([checkAccess(connectKafka({ config, role: roles.join('-'), log })), checkStores(config)])
  if (!setUpDone) {
    const { setUp } = await import('./set-up.ts')
    await setUp(config, log)
  }
  const { runRoles } = await import('./run-roles.ts')
  await runRoles({
    roles,
    config,
    log,
    signal: stop.signal,
    onListening: ports => void process.send?.(ports),
    exit: code => process.exit(code),
  })
  // What was not closed must not keep a stopped process alive; the log names it.
  process.exit()
}

function positiveNumber(text: string): number {
  const value = Number(text)
  if (!Number.isFinite(value) || value <= 0) throw new InvalidArgumentError('It must be a number above 0.')
  return value
}

/** What a server refuses; loaded when something has failed, since most commands need none of it. */
async function refused(error: unknown): Promise<string | undefined> {
  const { refusalOf } = await import('#infra/kafka/refusal.ts')
  return refusalOf(error)
}

/** The failure of a server that does not answer. */
const unanswered = (error: unknown): string | undefined =>
  isUnreachable(error)
    ? `a server does not answer: ${messageOf(error)}. Is it running, and are the addresses right?`
    : undefined

async function withProgress<T>(text: string, work: () => Promise<T>): Promise<T> {
  const { openProgress } = await import('./progress.ts')
  const progress = openProgress(process.stderr)
  progress.step(text)
  try {
    return await work()
  } finally {
    progress.stop()
  }
}

try {
  await program.parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : exitCodes.usage
  else if (error instanceof CommandFailure) {
    console.error(`marketlog: ${error.message}`)
    process.exitCode = error.exitCode
  } else {
    const complaint = (await refused(error)) ?? unanswered(error)
    console.error(complaint === undefined ? error : `marketlog: ${complaint}`)
    process.exitCode = complaint === undefined ? exitCodes.bug : exitCodes.serverUnavailable
  }
}

/** `1.0.0 (ca63e61)`, or `1.0.0` where nothing was checked out. */
function versionText(environment: Environment): string {
  const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string }
  const commit = checkedOutCommit(environment)
  return commit === undefined ? version : `${version} (${commit})`
}

/** Asks git; undefined without git or a repository of our own: one around the folder is another project's. */
function checkedOutCommit({ PATH, HOME }: Environment): string | undefined {
  const env = { PATH, HOME, GIT_CEILING_DIRECTORIES: dirname(ROOT.slice(0, -1)) }
  try {
    const args = ['-C', ROOT, 'rev-parse', '--short', 'HEAD']
    return execFileSync('git', args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}
