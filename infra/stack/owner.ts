/**
 * Who runs the servers of a data directory, and what an earlier run has left there.
 *
 * Reads and writes owner.json and pids/*.json in the data directory. Invariant: at most one live process owns a data
 * directory, since it listens on an abstract socket of the directory's name, which the kernel gives back however it ends;
 * leftovers are signalled only when pid, kernel boot and start time all match what was noted.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { endProcess, identify, isAlive, type ProcessIdentity, readJson, replaceFile } from './processes.ts'

const POLL_MS = 100

/**
 * Makes this process the owner, once no other live process is; returns how to give it up. Throws when another one is still the
 * owner after so long.
 */
export async function acquireOwnership(
  directory: string,
  { limitMs = 0, signal }: { limitMs?: number; signal?: AbortSignal } = {},
): Promise<() => void> {
  const identity = identify(process.pid)
  if (identity === undefined) throw new Error('native servers need Linux with /proc; give addresses or use Docker')
  const file = join(directory, 'owner.json')
  const name = `\0marketlog-${createHash('sha256').update(resolve(directory)).digest('hex')}`
  const deadline = performance.now() + limitMs
  for (;;) {
    const lock = createServer()
    try {
      await once(lock.listen(name), 'listening')
      lock.unref()
      replaceFile(file, JSON.stringify(identity))
      return () => {
        rmSync(file, { force: true })
        lock.close()
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
      const { pid = 'unknown' } = readJson<Partial<ProcessIdentity>>(file) ?? {}
      if (performance.now() > deadline)
        throw new Error(`${directory} is already run by process ${pid}; stop that one first`)
      await pause(POLL_MS, undefined, { signal })
    }
  }
}

export function ownedByOther(dataDir: string): boolean {
  const owner = readJson<ProcessIdentity>(join(dataDir, 'owner.json'))
  return owner !== undefined && owner.pid !== process.pid && isAlive(owner)
}

/** Ends every process that is noted in pids/ and still is the one that was noted; returns their names. */
export async function endNotedProcesses(dataDir: string): Promise<string[]> {
  const directory = join(dataDir, 'pids')
  const ended: string[] = []
  const end = async (file: string) => {
    const leftProcess = readJson<ProcessIdentity & { stopSignal: NodeJS.Signals; graceMs: number }>(
      join(directory, file),
    )
    if (leftProcess !== undefined && isAlive(leftProcess)) {
      await endProcess(leftProcess, leftProcess.stopSignal, leftProcess.graceMs)
      ended.push(file.replace(/\.json$/, ''))
    }
    rmSync(join(directory, file), { force: true })
  }
  const notes = existsSync(directory) ? readdirSync(directory).filter(file => file.endsWith('.json')) : []
  await Promise.all(notes.map(end))
  return ended
}
