/**
 * Installs system packages where that is allowed: Debian or Ubuntu, root, apt-get, MARKETLOG_INSTALL not "never".
 *
 * Writes to the system through apt-get alone. A freshly installed package's own service is not started,
 * since servers run from the data directory only. Anywhere else it throws what the user has to install.
 */
import { chmodSync, existsSync, linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import type { ToolContext } from './native/native-server.ts'
import { runTool } from './one-shot.ts'
import { acquireOwnership } from './owner.ts'

const POLICY = '/usr/sbin/policy-rc.d'
const INSTALL_LIMIT_MS = 5 * MINUTE_MS

/**
 * Installs the packages, or throws `problem` with what to install by hand. `find` looks for what they bring: installs
 * of this machine follow one another, and an earlier one may have brought it already.
 */
export async function installPackages<T>(
  context: ToolContext,
  packages: string[],
  problem: string,
  find: () => T | undefined | Promise<T | undefined>,
): Promise<T> {
  const names = packages.join(' ')
  const advice = `${problem}. Install it: apt-get install --no-install-recommends ${names} (or your system's package).`
  if (context.environment.MARKETLOG_INSTALL === 'never')
    throw new Error(`${advice} MARKETLOG_INSTALL=never forbids it here.`)
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) throw new Error(advice)
  const lock = join(context.cacheDir, 'installing')
  mkdirSync(lock, { recursive: true })
  const release = await acquireOwnership(lock, { limitMs: INSTALL_LIMIT_MS, signal: context.signal })
  try {
    const earlier = await find()
    if (earlier !== undefined) return earlier
    await install(context, packages)
    const program = await find()
    if (program === undefined) throw new Error(`after installing ${names} it is still not to be found`)
    return program
  } catch (error) {
    context.signal.throwIfAborted()
    throw new Error(`${advice} Installing it failed: ${error instanceof Error ? error.message : String(error)}`)
  } finally {
    release()
  }
}

async function install(context: ToolContext, packages: string[]): Promise<void> {
  const { environment, say } = context
  const aptGet = (signal: AbortSignal, ...args: string[]) =>
    runTool({
      ...context,
      signal,
      command: 'apt-get',
      args: ['-q', '-o', 'DPkg::Lock::Timeout=120', ...args],
      environment: { ...environment, DEBIAN_FRONTEND: 'noninteractive' },
      limitMs: INSTALL_LIMIT_MS,
    })
  say(`installing ${packages.join(' ')} with apt-get`)
  const lift = forbidServiceStarts()
  try {
    await aptGet(context.signal, 'update')
    // An abort waits for the end of this one: cut in the middle it would leave the package system to be repaired.
    const never = new AbortController().signal
    await aptGet(never, 'install', '-y', '--no-install-recommends', ...packages)
    context.signal.throwIfAborted()
  } finally {
    lift()
  }
}

/** Debian asks policy-rc.d before it starts a service; ours says no only while this very process lives. */
function forbidServiceStarts(): () => void {
  if (existsSync(POLICY)) return () => {}
  const policy = `${POLICY}.${process.pid}`
  writeFileSync(policy, `#!/bin/sh\nkill -0 ${process.pid} 2>/dev/null && exit 101\nrm -f ${POLICY}\nexit 0\n`)
  chmodSync(policy, 0o755)
  try {
    linkSync(policy, POLICY)
  } catch {
    return () => {}
  } finally {
    rmSync(policy, { force: true })
  }
  return () => rmSync(POLICY, { force: true })
}
