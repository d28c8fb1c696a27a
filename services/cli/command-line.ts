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
import { CommandFailure, exitCodes, isUnreachable, messageOf } from './command-failure.ts'
import { addTopicTools, addViewTools } from './log-tools/commands.ts'
import { chooseRoles, isRoleThat } from './roles.ts'
import { cursorKey, prepareRunDirectory, readPlatform, readServers, runDirectory, secretKey } from './run-directory.ts'
import { settleEnvironment } from './settle-environment.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const environment = readEnvironment()
const directory = runDirectory(environment)

/** Settings of a command that works on running servers; loading a command's own code waits until it is asked for. */
function connect({ lives = false, serves = false } = {}): { config: PlatformConfig; log: Log } {
  // The reader of a result may leave (`| head`).
  if (!lives)
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0)
      throw error
    })
  const servers = readServers(directory)
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
    const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string }
    process.stdout.write(`${[version, ...checkedOutCommit()].join(' ')}\n`)
    process.exit()
  })
  .showHelpAfterError('(marketlog --help shows the commands)')
  .exitOverride()

/** `(ca63e61)`; nothing without git or a repository of our own: one around the folder is another project's. */
function checkedOutCommit(): string[] {
  const env = { PATH: environment.PATH, HOME: environment.HOME, GIT_CEILING_DIRECTORIES: dirname(ROOT.slice(0, -1)) }
  const args = ['-C', ROOT, 'rev-parse', '--short', 'HEAD']
  try {
    return [`(${execFileSync('git', args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()})`]
  } catch {
    return []
  }
}

program
  .command('run')
  .argument('[role...]', 'roles to run in this process; all of them when none is named')
  .addOption(new Option('--set-up-done', 'the servers are set up already').hideHelp())
  .description('run roles in this process, on the servers of `make up` or of the environment')
  .action(async (names: string[], { setUpDone = false }: { setUpDone?: boolean }) => {
    const roles = chooseRoles(names)
    const { config, log } = connect({ lives: true, serves: roles.some(role => isRoleThat('serves', role)) })
    const { runProcess } = await import('./run-roles.ts')
    await runProcess(roles, config, log, setUpDone)
  })

program
  .command('up')
  .description('start everything in the background; returns once prices are live')
  .action(async () => (await import('./up.ts')).up(directory, environment))

program
  .command('demo')
  .description('start everything in this terminal, show sample calls; Ctrl-C stops all of it')
  .action(async () => (await import('./up.ts')).demo(directory, environment))

program
  .command('down')
  .description('stop the platform and its servers; data stays')
  .action(async () => (await import('./up.ts')).down(directory))

program
  .command('clean')
  .description('stop the platform and remove its data, logs and keys')
  .action(async () => (await import('./up.ts')).clean(directory))

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

addTopicTools(program, connect)
addViewTools(program, connect)

function positiveNumber(text: string): number {
  const value = Number(text)
  if (!Number.isFinite(value) || value <= 0) throw new InvalidArgumentError('It must be a number above 0.')
  return value
}

try {
  await program.parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : exitCodes.usage
  else if (error instanceof CommandFailure) {
    console.error(`marketlog: ${error.message}`)
    process.exitCode = error.exitCode
  } else {
    // Loaded when something has failed, since most commands need none of it.
    const { refusalOf } = await import('#infra/kafka/refusal.ts')
    const unanswered = `a server does not answer: ${messageOf(error)}. Is it running, and are the addresses right?`
    const complaint = refusalOf(error) ?? (isUnreachable(error) ? unanswered : undefined)
    console.error(complaint === undefined ? error : `marketlog: ${complaint}`)
    process.exitCode = complaint === undefined ? exitCodes.bug : exitCodes.serverUnavailable
  }
}
