/** A namespace of a benchmark's own. Roles never share the measuring process's event loop: each runs as a process of its own. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Tier } from '#infra/config/tiers.ts'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { setUp } from '#services/cli/set-up.ts'
import { removeNamespace } from '#test/harness/remove-namespace.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import {
  endAll,
  newEnvironment,
  platformOf,
  readTestEnvironment,
  type TestPlatform,
} from '#test/harness/test-platform.ts'

export interface BenchRole extends SpawnedRole {
  readonly url: string
  readonly port: number
}

export type BenchPlatform = Awaited<ReturnType<typeof openBenchPlatform>>

export async function openBenchPlatform(addresses: ServerAddresses) {
  const stateDir = mkdtempSync(join(tmpdir(), 'marketlog-bench-'))
  const opened = readTestEnvironment({
    ...newEnvironment(addresses, { initial: 'b', stateDir }),
    MARKETLOG_TIERS: writeRoomyTiers(stateDir, { streamStarts: 'unlimited' }),
  })
  const ends: (() => unknown)[] = [
    () => rmSync(stateDir, { recursive: true, force: true }),
    () => removeNamespace(opened.config, opened.log),
  ]
  const close = () => endAll(ends)
  const platform = platformOf(
    () => opened,
    end => void ends.push(end),
  )
  await setUp(opened.config, opened.log).catch(async error => {
    await close()
    throw error
  })
  const running = new Map<string, BenchRole>()
  const start = async (name: string, roles: readonly RoleName[], env?: Record<string, string>): Promise<BenchRole> => {
    const spawned = await platform.spawnRole(roles.join(' '), env)
    const url = await spawned.baseUrl()
    const process = { ...spawned, url, port: Number(new URL(url).port) }
    running.set(name, process)
    return process
  }
  return Object.assign(platform, {
    /** Starts a process of one or more roles, as the first or in the place of one that has ended. */
    start,
    close,
    /** The running process of a role alone, started when there is none; resolves when it listens. */
    role: async (name: RoleName, env?: Record<string, string>) => running.get(name) ?? start(name, [name], env),
    /** Stops a process, or all of them; rejects when one has ended by itself. */
    async stop(name?: string): Promise<void> {
      const names = name === undefined ? [...running.keys()] : [name]
      const stopped = names.flatMap(one => running.get(one) ?? [])
      for (const one of names) running.delete(one)
      await Promise.all(stopped.map(one => one.stop()))
    },
  })
}

/** The whole answer to the holder of a key, by Node's own client; a body of text is JSON. Throws unless all is well. */
export async function askAs(key: string, url: string, init: RequestInit = {}): Promise<string> {
  const json = typeof init.body === 'string' && { 'content-type': 'application/json' }
  const answer = await fetch(url, { ...init, headers: { authorization: `Bearer ${key}`, ...json } })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${text.slice(0, 300)}`)
  return text
}

const MAKERS = 4

/** Makes as many keys, each of an account of its own. */
export async function makeKeys(platform: TestPlatform, count: number, tier: Tier = 'quant'): Promise<string[]> {
  const database = platform.openDatabase({ connections: MAKERS })
  const keys: string[] = []
  const make = async (): Promise<void> => {
    while (keys.length < count) {
      const at = keys.push('') - 1
      keys[at] = (await createAccountWithKey(database, { tier })).key
    }
  }
  await Promise.all(Array.from({ length: MAKERS }, make))
  return keys
}

/** The environment of a role with the tiers as built in, but for the highest, whose keys may ask as often as they like. */
export const withoutLimits = ({ config }: TestPlatform): { MARKETLOG_TIERS: string } => ({
  MARKETLOG_TIERS: writeRoomyTiers(config.stateDir, { streamStarts: 'unlimited', onlyHighest: true }),
})
