/**
 * The process in which the ClickHouse engine runs: arguments are data directory, HTTP port and config file.
 *
 * Loads libchdb through ffi-rs and runs the engine's command line with its HTTP listener and one endless query
 * that keeps it up. Invariant: it ends by killing that very query - named by a random mark - so it can only ever
 * end itself. It must lead its own process group, because SYSTEM SHUTDOWN signals the group.
 */
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { DataType, define, isNullPointer, load, open } from 'ffi-rs'
import { readEnvironment } from '#infra/runtime/environment.ts'

const [data, port, config] = process.argv.slice(2)
const { CLICKHOUSE_ENGINE_USER = '', CLICKHOUSE_ENGINE_PASSWORD = '' } = readEnvironment()
const library = join(
  dirname(
    createRequire(import.meta.url).resolve(
      `@chdb/lib-${process.platform}-${process.arch}${process.platform === 'linux' ? '-gnu' : ''}/package.json`,
    ),
  ),
  'libchdb.so',
)
const mark = `/*keepalive ${randomUUID()}*/`
const keepAlive =
  'SELECT sleepEachRow(1) FROM system.numbers FORMAT Null SETTINGS max_block_size = 1, ' +
  `function_sleep_max_microseconds_per_block = 0, max_execution_time = 0 ${mark}`
const commandLine = [
  ...[
    'clickhouse',
    `--config-file=${config}`,
    `--path=${data}`,
    `--http_port=${port}`,
    '--listen_host=127.0.0.1',
    '--log-level=warning',
  ],
  ...['--query', `SYSTEM START LISTEN HTTP; ${keepAlive}`],
]

let stopping = false

async function stop(): Promise<void> {
  if (stopping) return
  stopping = true
  try {
    const response = await fetch(`http://127.0.0.1:${port}/`, {
      method: 'POST',
      body: `KILL QUERY WHERE position(query, '${mark}') > 0 AND position(query, 'KILL') = 0 ASYNC`,
      headers: {
        'X-ClickHouse-User': CLICKHOUSE_ENGINE_USER,
        'X-ClickHouse-Key': CLICKHOUSE_ENGINE_PASSWORD,
        connection: 'close',
      },
      signal: AbortSignal.timeout(5_000),
    })
    const answer = await response.text()
    if (!response.ok) throw new Error(answer)
  } catch (error) {
    console.error('the engine could not be asked to end, exiting at once:', error)
    process.exit(1)
  }
}

function errorOf(result: unknown): string {
  if (isNullPointer(result as never)) return ''
  const read = (retType: DataType) =>
    load({
      library: 'chdb',
      funcName: 'chdb_result_error',
      retType,
      paramsType: [DataType.External],
      paramsValue: [result],
    })
  return isNullPointer(read(DataType.External) as never) ? '' : String(read(DataType.String))
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void stop())

open({ library: 'chdb', path: library })
// Node's own handlers stay in charge of signals.
load({
  library: 'chdb',
  funcName: 'chdb_set_signal_handlers_enabled',
  retType: DataType.Void,
  paramsType: [DataType.I32],
  paramsValue: [0],
})
const engine = define({
  // Own thread, so that this process can still handle signals.
  chdb_query_cmdline: {
    library: 'chdb',
    retType: DataType.External,
    paramsType: [DataType.I32, DataType.StringArray],
    runInNewThread: true,
  },
})

try {
  const result = await engine.chdb_query_cmdline([commandLine.length, commandLine])
  if (!stopping) console.error('the engine ended:', errorOf(result))
} catch (error) {
  console.error(error)
}
process.exit(stopping ? 0 : 1)
