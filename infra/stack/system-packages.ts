/**
 * Installs system packages where that is allowed: Debian or Ubuntu, root, apt-get, MARKETLOG_INSTALL not "never".
 *
 * Writes to the system through apt-get alone. Invariant: a freshly installed package's own service is not started,
 * since servers run from the data directory only. Anywhere else it throws what the user has to install.
 */
import { chmodSync, existsSync, linkSync, rmSync, writeFileSync } from 'node:fs'
import type { NativeContext } from './native/native-server.ts'
import { runTool } from './one-shot.ts'
import { sayWhile } from './progress.ts'

const POLICY = '/usr/sbin/policy-rc.d'
const INSTALL_LIMIT_MS = 5 * 60_000

// apt-get holds one lock per machine, so installs of this process follow one another.
let previous: Promise<unknown> = Promise.resolve()

/** Installs the packages, or throws `problem` with what to install by hand. */
export async function installPackages(context: NativeContext, packages: string[], problem: string): Promise<void> {
  const names = packages.join(' ')
  const advice = `${problem}. Install it: apt-get install --no-install-recommends ${names} (or your system's package).`
  if (context.environment.MARKETLOG_INSTALL === 'never')
    throw new Error(`${advice} MARKETLOG_INSTALL=never forbids it here.`)
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) throw new Error(advice)
  const mine = previous.then(() => install(context, packages))
  previous = mine.catch(() => {})
  try {
    await mine
  } catch (error) {
    context.signal.throwIfAborted()
    throw new Error(`${advice} Installing it failed: ${error instanceof Error ? error.message : String(error)}`)
  }
}

async function install(context: NativeContext, packages: string[]): Promise<void> {
  const aptGet = (...args: string[]) =>
    runTool({
      command: 'apt-get',
      args: ['-q', '-o', 'DPkg::Lock::Timeout=120', ...args],
      environment: { ...context.environment, DEBIAN_FRONTEND: 'noninteractive' },
      limitMs: INSTALL_LIMIT_MS,
      signal: context.signal,
    })
  context.say(`installing ${packages.join(' ')} with apt-get`)
  const lift = forbidServiceStarts()
  try {
    await sayWhile(context.say, 'apt-get update', () => aptGet('update'))
    await sayWhile(context.say, 'apt-get install', () =>
      aptGet('install', '-y', '--no-install-recommends', ...packages),
    )
  } finally {
    lift()
  }
}

/** Debian asks policy-rc.d before it starts a service; ours says no only while this very process lives. */
function forbidServiceStarts(): () => void {
  if (existsSync(POLICY)) return () => {}
  const own = `${POLICY}.${process.pid}`
  writeFileSync(own, `#!/bin/sh\nkill -0 ${process.pid} 2>/dev/null && exit 101\nrm -f ${POLICY}\nexit 0\n`)
  chmodSync(own, 0o755)
  try {
    linkSync(own, POLICY)
  } catch {
    return () => {}
  } finally {
    rmSync(own, { force: true })
  }
  return () => rmSync(POLICY, { force: true })
}
