/**
 * Runs the servers alone, in the foreground, for the tests of a second terminal: `node test/harness/run-servers.ts DIR`.
 *
 * Writes DIR/servers.json (addresses with credentials, readable to the owner alone) once all servers answer and
 * removes it at the end. SIGTERM, SIGINT or SIGHUP stops everything, also in the middle of starting.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { replaceFile } from '#infra/stack/processes.ts'
import { provideServers } from '#infra/stack/servers.ts'
import { listenForStop } from '#services/cli/stop-signals.ts'

const say = (line: string) => console.error(line)

async function run(dataDir: string): Promise<void> {
  const { signal } = listenForStop()
  const file = join(dataDir, 'servers.json')
  mkdirSync(dataDir, { recursive: true })
  rmSync(file, { force: true })
  const servers = await provideServers({ dataDir, environment: process.env, say, signal })
  replaceFile(file, `${JSON.stringify(servers.addresses, null, 2)}\n`, 0o600)
  say(`all servers answer; addresses are in ${file}`)
  const alive = setInterval(() => {}, 60_000)
  await new Promise(resolve => {
    if (signal.aborted) resolve(undefined)
    signal.addEventListener('abort', resolve, { once: true })
  })
  clearInterval(alive)
  rmSync(file, { force: true })
  await servers.stop()
  say('all servers are stopped')
}

const [directory] = process.argv.slice(2)
try {
  if (directory === undefined) throw new Error('usage: node test/harness/run-servers.ts DIR')
  await run(resolve(directory))
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}
