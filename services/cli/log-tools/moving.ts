/**
 * The commands that copy ranges of the log elsewhere: replay and export.
 *
 * Declares arguments; see commands.ts.
 */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { listenForStop } from '../stop-signals.ts'
import type { Connect } from './commands.ts'
import { endWithReader } from './output.ts'

/** Adds the commands to a program. */
export function addMoving(program: Command, connect: Connect): void {
  const stretch = (command: Command): Command =>
    command
      .option('--from <place>', 'offset of each partition, time, age such as 2h, or -N; the start when left out')
      .option('--to <place>', "the same; the log's end of now when left out")

  stretch(program.command('replay').argument('<topic>', 'name of the catalogue'))
    .description('a stretch of a topic again, at any speed, to anywhere but a topic of the catalogue')
    .option('--speed <factor>', '0: as fast as it goes; 1: as the log took it; 10x: ten times that', speedOf, 0)
    .addOption(new Option('--to-topic <name>', 'a topic of your own').conflicts(['toUrl', 'stdout', 'raw']))
    .addOption(new Option('--to-url <url>', 'NDJSON by POST').conflicts(['stdout', 'raw']))
    .option('--stdout', 'JSON lines (default)')
    .option('--raw', 'lines hold the bytes as base64 instead of the decoded event')
    .action(async (topic: string, options: { speed: number }) => {
      const { config, log } = connect()
      const { replay } = await import('./replay.ts')
      endWithReader(process.stdout)
      await replay(config, log, topic, process.stdout, { ...options, signal: listenForStop().signal })
    })

  stretch(program.command('export').argument('<topic>', 'name of the catalogue'))
    .description('a stretch of a topic as a file')
    .option('--parquet <file>', 'typed columns')
    .option('--ndjson <file>', 'JSON lines; - is standard output')
    .action(async (topic: string, options: object) => {
      const { config, log } = connect()
      const { exportTopic } = await import('./export.ts')
      endWithReader(process.stdout)
      await exportTopic(config, log, topic, process.stdout, { ...options, signal: listenForStop().signal })
    })
}

function speedOf(text: string): number {
  const match = /^(\d+(?:\.\d+)?)x?$/.exec(text)
  if (!match) throw new InvalidArgumentError('It must be 0, 1 or a factor such as 10x.')
  return Number(match[1])
}
