/**
 * Runs the servers alone, in the foreground: `node infra/stack/main.ts up --data-dir DIR`.
 *
 * Writes DIR/servers.json (addresses with credentials, readable to the owner alone) once all servers answer and
 * removes it at the end. SIGTERM, SIGINT or SIGHUP stops everything, also in the middle of starting.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readEnvironment } from '#infra/runtime/environment.ts'
import { replaceFile } from './processes.ts'
import { provideServers, removeServerData, stopLeftovers } from './servers.ts'

const USAGE = 'usage: node infra/stack/main.ts up|stop-leftovers|clean --data-dir DIR'

const { positionals, values } = parseArgs({ allowPositionals: true, options: { 'data-dir': { type: 'string' } } })
const say = (line: string) => console.error(line)

async function up(dataDir: string): Promise<void> {
  const end = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => end.abort(new Error(`stopped by ${signal}`)))
  const file = join(dataDir, 'servers.json')
  mkdirSync(dataDir, { recursive: true })
  rmSync(file, { force: true })
  const startedAt = performance.now()
  const servers = await provideServers({ dataDir, environment: readEnvironment(), say, signal: end.signal })
  const { addresses, provided, pids } = servers
  replaceFile(file, `${JSON.stringify({ ...addresses, provided, pids }, null, 2)}\n`, 0o600)
  say(`all servers answer after ${((performance.now() - startedAt) / 1000).toFixed(1)} s; addresses are in ${file}`)
  await untilAborted(end.signal)
  rmSync(file, { force: true })
  await servers.stop()
  say('all servers are stopped')
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const alive = setInterval(() => {}, 60_000)
    const finish = () => {
      clearInterval(alive)
      resolve()
    }
    if (signal.aborted) finish()
    signal.addEventListener('abort', finish, { once: true })
  })
}

try {
  const dataDir = values['data-dir'] === undefined ? undefined : resolve(values['data-dir'])
  const [command] = positionals
  if (dataDir === undefined) throw new Error(USAGE)
  if (command === 'up') await up(dataDir)
  else if (command === 'stop-leftovers') say(`stopped: ${(await stopLeftovers(dataDir)).join(', ') || 'nothing'}`)
  else if (command === 'clean') await removeServerData(dataDir)
  else throw new Error(USAGE)
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}
