/**
 * Loopback ports of the servers, remembered beside their data.
 *
 * Reads and writes ports.json in the data directory and binds each candidate for a moment. Invariant: a server
 * keeps its port from start to start while no other process holds it. Candidates lie below the range from which the
 * kernel picks ports of outgoing connections, which could otherwise take a server's port between two starts.
 */
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readJson, replaceFile } from './processes.ts'

const LOWEST = 15_000
const HIGHEST = 32_000
const ATTEMPTS = 200
/** Two seconds for a port that must be the same. */
const TRIES = 20
const TRY_EVERY_MS = 100

/** Hands out ports by purpose, e.g. `kafka` or `kafka-controller`. */
export type PortBook = (purpose: string) => Promise<number>

/**
 * Opens the port book of a data directory. One that is `isFixed` gives no other port instead of one that is held, since clients
 * know it: it waits a little, then throws. A process that was killed holds its port until its last thread has ended.
 */
export function openPortBook(dataDir: string, { isFixed = false } = {}): PortBook {
  const file = join(dataDir, 'ports.json')
  const remembered = readJson<Record<string, number>>(file) ?? {}
  const usedPorts = new Set<number>()

  async function free(candidate: number | undefined): Promise<boolean> {
    if (candidate === undefined || usedPorts.has(candidate)) return false
    usedPorts.add(candidate)
    return canBind(candidate)
  }

  return async purpose => {
    let port = remembered[purpose]
    for (let attempt = 0; !(await free(port)); attempt++) {
      if (isFixed && port !== undefined) return whenFree(port)
      if (attempt === ATTEMPTS) throw new Error(`no free loopback port between ${LOWEST} and ${HIGHEST}`)
      port = randomInt(LOWEST, HIGHEST)
    }
    remembered[purpose] = port as number
    replaceFile(file, JSON.stringify(remembered, null, 2))
    return port as number
  }
}

async function whenFree(port: number): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    if (await canBind(port)) return port
    await delay(TRY_EVERY_MS)
  }
  throw new Error(`its port ${port} is held by something else`)
}

function canBind(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
