/**
 * The data engineer's commands, as `marketlog --help` shows them.
 *
 * A command's own code is loaded when it is called. A signal ends it between two records.
 */
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { VIEWS } from '#streams/views.ts'
import { listenForStop } from '../stop-signals.ts'

const VIEW_NAMES = [
  ...VIEWS.flatMap(({ name, aliases = [], rebuild }) =>
    rebuild ? [aliases.length > 0 ? `${name} (or ${aliases.join(', ')})` : name] : [],
  ),
  'alerts',
].join(', ')
const CATALOGUE = 'name of the catalogue, for example market.book-changes'
const JSON_OPTION = ['--json', 'JSON lines on a terminal too'] as const

const output = process.stdout

type Connect = () => { config: PlatformConfig; log: Log }

/** Adds the commands that read topics. */
export function addTopicTools(program: Command, connect: Connect): void {
  program
    .command('topics')
    .description('the catalogue of topics with live sizes, offsets, lag of readers and retention')
    .option(...JSON_OPTION)
    .action(async (options: { json?: boolean }) => {
      const { config, log } = connect()
      const { showTopics } = await import('./topics.ts')
      await showTopics(config, log, output, options)
    })

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
    .action(async (topic: string, options: { follow: boolean }) => {
      const { config, log } = connect()
      const { tail } = await import('./tail.ts')
      await tail(config, log, topic, output, { ...options, signal: listenForStop().signal })
    })

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
    .action(async (topic: string, options: { speed: number }) => {
      const { config, log } = connect()
      const { replay } = await import('./replay.ts')
      await replay(config, log, topic, output, { ...options, signal: listenForStop().signal })
    })

  stretch(program.command('export'))
    .description('a stretch of a topic as a file')
    .option('--parquet <file>', 'typed columns')
    .option('--ndjson <file>', 'JSON lines; - is standard output')
    .action(async (topic: string, options: object) => {
      const { config, log } = connect()
      const { exportTopic } = await import('./export.ts')
      await exportTopic(config, log, topic, output, { ...options, signal: listenForStop().signal })
    })
}

/** Adds the commands that mend what is derived of topics, and that show what could not be applied. */
export function addViewTools(program: Command, connect: Connect): void {
  program
    .command('rebuild')
    .argument('<view>', VIEW_NAMES)
    .description('rebuild a view from the log while it is read, then switch to it in one step')
    .option('--accept-loss', 'go on without records that expired before the view saw them', false)
    .action(async (text: string, options: { acceptLoss: boolean }) => {
      const { rebuild, viewOf } = await import('./views.ts')
      const { name } = viewOf(text)
      const { config, log } = connect()
      await rebuild(config, log, name, output, { ...options, signal: listenForStop().signal })
    })

  program
    .command('verify')
    .argument('<view>', VIEW_NAMES)
    .description('derive a view from the log by other means and compare; exit code 1 on any difference')
    .action(async (text: string) => {
      const { verify, viewOf } = await import('./views.ts')
      const { name } = viewOf(text)
      const { config, log } = connect()
      await verify(config, log, name, output)
    })

  program
    .command('reset')
    .argument('<processor>', 'book, or provisional-items')
    .description(
      'have a processor whose position is not of the log that is there go on at the start of what it reads now',
    )
    .option(...JSON_OPTION)
    .action(async (name: string, options: { json?: boolean }) => {
      const { config, log } = connect()
      const { reset } = await import('./reset.ts')
      await reset(config, log, name, output, options)
    })

  const letters = program.command('dead-letters').description('records that a group could not read or accept')
  letters
    .command('list')
    .description('dead letters, oldest first')
    .option('--group <group>', 'of one group')
    .option('--reason <reason>', 'of one reason')
    .option(...JSON_OPTION)
    .action(async (options: object) => {
      const { config, log } = connect()
      const { listDeadLetters } = await import('./dead-letters.ts')
      await listDeadLetters(config, log, output, options)
    })
  letters
    .command('show')
    .argument('<letter>', 'its number in the list', wholeNumber)
    .description('one of them whole, with its record as far as it can be read')
    .action(async (letter: number) => {
      const { config, log } = connect()
      const { showDeadLetter } = await import('./dead-letters.ts')
      await showDeadLetter(config, log, output, letter)
    })

  program
    .command('unresolved')
    .description('records whose name the catalog lacks')
    .command('list')
    .description('names, how often each came, and whether the catalog knows it by now')
    .option(...JSON_OPTION)
    .action(async (options: object) => {
      const { config, log } = connect()
      const { listUnresolved } = await import('./dead-letters.ts')
      await listUnresolved(config, log, output, options)
    })
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
