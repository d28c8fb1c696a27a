/**
 * Stand-ins for the outside world of a platform on one machine: sign-in, mail and the game's sign-in, where the user
 * names none.
 *
 * Starts one child process on loopback. Invariant: what the environment names always wins; without development
 * dependencies, or on an address that others can reach, there are none, and the routes that need them name the settings.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Environment } from '#infra/runtime/secret.ts'
import { launch } from '#infra/stack/launch.ts'
import type { RunDirectory } from './run-directory.ts'

const MAIN = fileURLToPath(new URL('../../test/stand-ins/main.ts', import.meta.url))
const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost'])
const START_LIMIT_MS = 20_000
const GRACE_MS = 5_000
const NAMES = ['MARKETLOG_OIDC_URL', 'MARKETLOG_SMTP_URL', 'MARKETLOG_PLATFORM_OPENID_URL']

/** Starts them and gives the variables of those that the environment names not; undefined when none is needed, or none can be started. */
export async function startStandIns(environment: Environment, directory: RunDirectory, baseUrl: string) {
  const isOwn = LOOPBACK.has(environment.HOST || '127.0.0.1') && !environment.BASE_URL
  if (!isOwn || NAMES.every(name => environment[name]) || !isInstalled()) return undefined
  const addressed = Promise.withResolvers<unknown>()
  const { stop, ended } = launch({
    command: process.execPath,
    args: [MAIN, baseUrl, directory.mails],
    environment: { PATH: environment.PATH ?? '' },
    logFile: join(directory.logs, 'stand-ins.log'),
    noteFile: join(directory.supervisor, 'pids', 'stand-ins.json'),
    stopSignal: 'SIGTERM',
    graceMs: GRACE_MS,
    onMessage: addressed.resolve,
  })
  const limit = pause(START_LIMIT_MS, undefined, { ref: false })
  const addresses: unknown = await Promise.race([addressed.promise, ended.then(() => undefined), limit])
  if (typeof addresses !== 'object' || addresses === null) {
    await stop()
    return undefined
  }
  // A provider of the user's own has an id of its own.
  const ownAddresses = Object.entries(addresses as Environment).filter(
    ([name]) => !environment[name] && !(name.startsWith('MARKETLOG_OIDC') && environment.MARKETLOG_OIDC_URL),
  )
  return { variables: Object.fromEntries(ownAddresses), stop }
}

function isInstalled(): boolean {
  try {
    return existsSync(MAIN) && existsSync(fileURLToPath(import.meta.resolve('oidc-provider')))
  } catch {
    return false
  }
}
