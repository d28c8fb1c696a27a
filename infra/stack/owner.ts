/**
 * Who runs the servers of a data directory, and what an earlier run has left there.
 *
 * Reads and writes owner.json and pids/*.json in the data directory. Invariant: at most one live process owns a data
 * directory; leftovers are signalled only when pid, kernel boot and start time all match what was noted.
 */
import { linkSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { endProcess, identify, isAlive, type ProcessIdentity, readJson } from './processes.ts'

interface LeftProcess extends ProcessIdentity {
  stopSignal: NodeJS.Signals
  graceMs: number
}

const ATTEMPTS = 20
const POLL_MS = 100

/** Makes this process the owner; returns how to give it up. Throws while another live process is the owner. */
export function takeOwnership(dataDir: string): () => void {
  const outcome = tryToOwn(dataDir)
  if (typeof outcome === 'function') return outcome
  throw new Error(`the servers of ${dataDir} are already run by process ${outcome.pid}; stop that one first`)
}

/** Waits, at most `limitMs`, until no other live process owns the directory, and makes this one its owner. */
export async function waitForOwnership(directory: string, limitMs: number, signal: AbortSignal): Promise<() => void> {
  const deadline = performance.now() + limitMs
  for (;;) {
    const outcome = tryToOwn(directory)
    if (typeof outcome === 'function') return outcome
    if (performance.now() > deadline)
      throw new Error(`process ${outcome.pid} has held ${directory} for more than ${limitMs / 1000} s`)
    await pause(POLL_MS, undefined, { signal })
  }
}

/** How to give up what is now owned, or the owner that is there. */
function tryToOwn(directory: string): (() => void) | ProcessIdentity {
  const file = join(directory, 'owner.json')
  const mine = identify(process.pid)
  if (mine === undefined) throw new Error('native servers need Linux with /proc; give addresses or use Docker')
  const own = `${file}.${crypto.randomUUID()}`
  writeFileSync(own, JSON.stringify(mine))
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (linked(own, file)) return () => rmSync(file, { force: true })
      const owner = readJson<ProcessIdentity>(file)
      if (owner !== undefined && isAlive(owner)) return owner
      dropDeadOwner(file)
    }
    throw new Error(`${file} changes all the time; is something else starting in ${directory}?`)
  } finally {
    rmSync(own, { force: true })
  }
}

/** Gives a file a second name; false when that name is taken. */
function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Moves the file away and checks again, so that two processes which both saw a dead owner cannot both win. */
function dropDeadOwner(file: string): void {
  const aside = `${file}.${crypto.randomUUID()}`
  try {
    renameSync(file, aside)
  } catch {
    return
  }
  const owner = readJson<ProcessIdentity>(aside)
  // False when a third process has become the owner meanwhile.
  if (owner !== undefined && isAlive(owner)) linked(aside, file)
  rmSync(aside, { force: true })
}

/** Whether a live process other than this one owns the data directory. */
export function ownedByOther(dataDir: string): boolean {
  const owner = readJson<ProcessIdentity>(join(dataDir, 'owner.json'))
  return owner !== undefined && owner.pid !== process.pid && isAlive(owner)
}

/** Ends every process that is noted in pids/ and still is the one that was noted; returns their names. */
export async function endNotedProcesses(dataDir: string): Promise<string[]> {
  const directory = join(dataDir, 'pids')
  const ended: string[] = []
  const end = async (file: string) => {
    const left = readJson<LeftProcess>(join(directory, file))
    if (left !== undefined && isAlive(left)) {
      await endProcess(left, left.stopSignal, left.graceMs)
      ended.push(file.replace(/\.json$/, ''))
    }
    rmSync(join(directory, file), { force: true })
  }
  await Promise.all(listJson(directory).map(end))
  return ended
}

function listJson(directory: string): string[] {
  try {
    return readdirSync(directory).filter(file => file.endsWith('.json'))
  } catch {
    return []
  }
}
