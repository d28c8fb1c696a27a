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
/** Two seconds for a port that was given before. */
const TRIES = 20
const TRY_EVERY_MS = 100

/** Hands out ports by purpose, e.g. `kafka` or `kafka-controller`. */
export type PortBook = (purpose: string) => Promise<number>

/**
 * Opens the port book of a data directory. A remembered port that is held is waited for a little, since a process that was killed
 * holds its port until its last thread has ended; then a book that is `isFixed` throws, as clients know the port, and another one
 * gives another port.
 */
export function openPortBook(dataDir: string, { isFixed = false } = {}): PortBook {
  const file = join(dataDir, 'ports.json')
  const ports = readJson<Record<string, number>>(file) ?? {}
  const usedPorts = new Set<number>()

  async function isFree(port: number, tries: number): Promise<boolean> {
    if (usedPorts.has(port)) return false
    usedPorts.add(port)
    for (; tries > 0; tries--) {
      if (await canBind(port)) return true
      await delay(TRY_EVERY_MS)
    }
    return false
  }

  return async purpose => {
    const remembered = ports[purpose]
    if (remembered !== undefined && (await isFree(remembered, TRIES))) return remembered
    if (isFixed && remembered !== undefined) throw new Error(`its port ${remembered} is held by something else`)
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const port = randomInt(LOWEST, HIGHEST)
      if (!(await isFree(port, 1))) continue
      ports[purpose] = port
      replaceFile(file, JSON.stringify(ports, null, 2))
      return port
    }
    throw new Error(`no free loopback port between ${LOWEST} and ${HIGHEST}`)
  }
}

function canBind(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
