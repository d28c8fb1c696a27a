/**
 * The command line `marketlog`: the one place that reads the environment, and the composition root of all services.
 *
 * Standard output carries results, standard error progress and logs. A failure that the user can do
 * something about is one line and an exit code; anything else is a bug and shows its stack. A command's own code is loaded when it
 * is called.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Command, CommanderError, InvalidArgumentError, Option, program } from 'commander'
import { TIERS } from '#infra/config/tiers.ts'
import { type PlatformConfig, readConfig } from '#infra/runtime/config.ts'
import { readEnvironment } from '#infra/runtime/environment.ts'
import { openLog } from '#infra/runtime/log.ts'
import { VIEWS } from '#streams/views.ts'
import { CommandFailure, exitCodes, isUnreachable, messageOf } from './command-failure.ts'
import type { CommandContext } from './output.ts'
import { chooseRoles, isRoleThat } from './roles.ts'
import { cursorKey, prepareRunDirectory, readPlatform, readServers, runDirectory, secretKey } from './run-directory.ts'
import { settleEnvironment } from './settle-environment.ts'
import { listenForStop } from './stop-signals.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const environment = readEnvironment()
const directory = runDirectory(environment)

/** Connects a command to running servers. A process that lives runs roles; one that serves answers clients. */
function connect({ lives = false, serves = false } = {}): CommandContext {
  // The reader of a result may leave (`| head`).
  if (!lives)
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0)
      throw error
    })
  const servers = readServers(directory)
  if (lives) prepareRunDirectory(directory)
  const local = {
    servers,
    stateDir: directory.state,
    cursorKey: serves ? cursorKey(directory) : undefined,
    secretKey: lives ? secretKey(directory) : undefined,
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
  return { config, log: openLog({ level, name: 'marketlog' }), output: process.stdout }
}

const JSON_OPTION = ['--json', 'JSON lines on a terminal too'] as const

program
  .name('marketlog')
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
  .addOption(new Option('--set-up-done', 'the servers are set up already').default(false).hideHelp())
  .description('run roles in this process, on the servers of `make up` or of the environment')
  .action(async (names, { setUpDone }) => {
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
  .option(...JSON_OPTION)
  .action(async options => (await import('./lag.ts')).showLag(connect(), options))

program
  .command('keys')
  .description('API keys')
  .command('create')
  .description('create an account and print its key, which is shown this once')
  .addOption(new Option('--tier <tier>', 'tier of the account').choices(TIERS).makeOptionMandatory())
  .option('--name <name>', 'name of the account')
  .option('--email <address>', 'e-mail address of the account, taken as verified')
  .action(async options => (await import('./accounts.ts')).createKey(connect(), options))

program
  .command('audit')
  .description('the security audit log: sign-ins, keys, addresses, webhooks, refused credentials')
  .option('--account <id>', 'of one account')
  .option('--kind <kind>', 'of one kind, for example `key.reissued`')
  .option('--days <days>', 'how far back', positiveNumber, 7)
  .option('--limit <entries>', 'the latest so many', positiveNumber, 100)
  .option(...JSON_OPTION)
  .action(async options => (await import('./accounts.ts')).showAuditLog(connect(), options))

const ingest = program.command('ingest').description('publish data from outside')

ingest
  .command('recorded')
  .description('publish recorded refreshes in time order; exits when the log holds them')
  .requiredOption('--provider <key>', 'provider key, for example `provider_02`')
  .requiredOption('--dir <dir>', 'folder of *.json.gz files')
  .addOption(new Option('--side <side>', 'what the prices are').choices(['ask', 'bid']).default('ask'))
  .action(async options => (await import('./ingest.ts')).ingestFolder(connect(), options))

ingest
  .command('history')
  .description('publish the daily closes of a history file; exits when the log holds them')
  .requiredOption(
    '--file <file>',
    'CSV of market_hash_name, date, price_minor or price, currency, listings; also gzipped',
  )
  .option('--provider <key>', 'whose closes they are; the first provider with prices in that currency when left out')
  .action(async options => (await import('./ingest.ts')).ingestHistoryFile(connect(), options))

program
  .command('acls')
  .argument('[role...]', 'roles, `setup` (makes topics) or `cli` (the tools); all of them when none is named')
  .description('the rights that each role needs on Kafka, a JSON line each')
  .option('--principal <principal>', 'who gets them; {role} is replaced by the role', 'User:marketlog-{role}')
  .option('--apply', 'give them; needs the right to alter the cluster', false)
  .action(async (roles, options) => (await import('./acls.ts')).showAcls(connect(), { roles, ...options }))

program
  .command('topics')
  .description('the catalogue of topics with live sizes, offsets, lag of readers and retention')
  .option(...JSON_OPTION)
  .action(async options => (await import('./log-tools/topics.ts')).showTopics(connect(), options))

// A signal ends a command that reads the log between two records.
const untilStopped = <T extends object>(options: T) => ({ ...options, signal: listenForStop().signal })

const CATALOGUE = 'name of the catalogue, for example market.book-changes'

program
  .command('tail')
  .argument('<topic>', CATALOGUE)
  .description('records of a topic as they come; Ctrl-C ends it')
  .option('--from <place>', 'offset of each partition, time, age such as 2h, or -N for the last N records')
  .option('--key <key>', 'records of one key')
  .option(
    '--filter <jsonata>',
    'records for which it is true, over topic, partition, offset, key, event, value, timestamp',
  )
  .option('--limit <count>', 'end after so many records', wholeNumber)
  .option('--no-follow', "end at the log's end of now")
  .option(...JSON_OPTION)
  .action(async (topic, options) => (await import('./log-tools/tail.ts')).tail(connect(), topic, untilStopped(options)))

const stretch = (command: Command): Command =>
  command
    .argument('<topic>', CATALOGUE)
    .option('--from <place>', 'offset of each partition, time, age such as 2h, or -N; the start when left out')
    .option('--to <place>', "the same; the log's end of now when left out")

stretch(program.command('replay'))
  .description('a stretch of a topic again, at any speed, to anywhere but a topic of the catalogue')
  .option('--speed <factor>', '0: as fast as it goes; 1: as the log took it; 10x: ten times that', speedOf, 0)
  .addOption(new Option('--to-topic <name>', 'a topic of your own').conflicts(['stdout', 'raw']))
  .option('--stdout', 'JSON lines (default)')
  .option('--raw', 'lines hold the bytes as base64 instead of the decoded event')
  .action(async (topic, options) =>
    (await import('./log-tools/replay.ts')).replay(connect(), topic, untilStopped(options)),
  )

stretch(program.command('export'))
  .description('a stretch of a topic as a file')
  .option('--parquet <file>', 'typed columns')
  .option('--ndjson <file>', 'JSON lines; - is standard output')
  .action(async (topic, options) =>
    (await import('./log-tools/export.ts')).exportTopic(connect(), topic, untilStopped(options)),
  )

const VIEW_NAMES = [
  ...VIEWS.flatMap(({ name, aliases = [], rebuild }) =>
    rebuild ? [aliases.length > 0 ? `${name} (or ${aliases.join(', ')})` : name] : [],
  ),
  'alerts',
].join(', ')

program
  .command('rebuild')
  .argument('<view>', VIEW_NAMES)
  .description('rebuild a view from the log while it is read, then switch to it in one step')
  .option('--accept-loss', 'go on without records that expired before the view saw them', false)
  .action(async (view, options) =>
    (await import('./log-tools/views.ts')).rebuild(connect(), view, untilStopped(options)),
  )

program
  .command('verify')
  .argument('<view>', VIEW_NAMES)
  .description('derive a view from the log by other means and compare; exit code 1 on any difference')
  .action(async view => (await import('./log-tools/views.ts')).verify(connect(), view))

program
  .command('reset')
  .argument('<processor>', 'book, or provisional-items')
  .description(
    'have a processor whose position is not of the log that is there go on at the start of what it reads now',
  )
  .option(...JSON_OPTION)
  .action(async (processor, options) => (await import('./log-tools/reset.ts')).reset(connect(), processor, options))

const letters = program.command('dead-letters').description('records that a group could not read or accept')
letters
  .command('list')
  .description('dead letters, oldest first')
  .option('--group <group>', 'of one group')
  .option('--reason <reason>', 'of one reason')
  .option(...JSON_OPTION)
  .action(async options => (await import('./log-tools/dead-letters.ts')).listDeadLetters(connect(), options))
letters
  .command('show')
  .argument('<letter>', 'its number in the list', wholeNumber)
  .description('one of them whole, with its record as far as it can be read')
  .action(async letter => (await import('./log-tools/dead-letters.ts')).showDeadLetter(connect(), letter))

program
  .command('unresolved')
  .description('records whose name the catalog lacks')
  .command('list')
  .description('names, how often each came, and whether the catalog knows it by now')
  .option(...JSON_OPTION)
  .action(async options => (await import('./log-tools/dead-letters.ts')).listUnresolved(connect(), options))

function positiveNumber(text: string): number {
  const value = Number(text)
  if (!Number.isFinite(value) || value <= 0) throw new InvalidArgumentError('It must be a number above 0.')
  return value
}

function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

function speedOf(text: string): number {
  const match = /^(\d+(?:\.\d+)?)x?$/.exec(text)
  if (!match) throw new InvalidArgumentError('It must be 0, 1 or a factor such as 10x.')
  return Number(match[1])
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
