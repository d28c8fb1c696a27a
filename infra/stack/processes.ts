/**
 * Identity and ending of operating-system processes.
 *
 * Reads /proc, reads and writes small identity files. Invariant: a process is signalled only while its boot id
 * and start time equal those noted when it was started, so a pid that the kernel gave away again is never hit.
 * Signals go to the process group, as every process started here leads a group of its own.
 * Must not start anything.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

/** The identity of a process: pid, kernel boot and start tick (field 22 of /proc/PID/stat). */
export interface ProcessIdentity {
  pid: number
  boot: string
  startTick: string
}

const POLL_MS = 20

/** Identity of a live process; undefined once it has ended (a zombie has ended). */
export function identify(pid: number): ProcessIdentity | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The command name is in brackets and may itself hold brackets and blanks.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [state, startTick] = [fields[0], fields[19]]
    if (startTick === undefined || state === 'Z' || state === 'X') return undefined
    return { pid, boot: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(), startTick }
  } catch {
    return undefined
  }
}

export function isAlive(identity: ProcessIdentity): boolean {
  const now = identify(identity.pid)
  return now !== undefined && now.startTick === identity.startTick && now.boot === identity.boot
}

/** Sends a signal to the group of exactly this process; false when it has ended. */
export function signalGroup(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false
  for (const target of [-identity.pid, identity.pid]) {
    try {
      process.kill(target, signal)
      return true
    } catch {
      // No such group: the process does not lead one; fall through to the process alone.
    }
  }
  return false
}

/** Waits until the process has ended; false when it still runs after `limitMs`. */
export async function waitForEnd(identity: ProcessIdentity, limitMs: number): Promise<boolean> {
  const deadline = performance.now() + limitMs
  while (isAlive(identity)) {
    if (performance.now() > deadline) return false
    await pause(POLL_MS)
  }
  return true
}

/** Asks the process to end, waits up to `graceMs`, then kills its group. */
export async function endProcess(identity: ProcessIdentity, signal: NodeJS.Signals, graceMs: number): Promise<void> {
  signalGroup(identity, signal)
  if (await waitForEnd(identity, graceMs)) return
  signalGroup(identity, 'SIGKILL')
  await waitForEnd(identity, graceMs)
}

/** Writes a file in one step: a reader sees the old content or the new one, never a part. */
export function replaceFile(path: string, content: string, mode = 0o644): void {
  const temporary = `${path}.${process.pid}.new`
  rmSync(temporary, { force: true })
  writeFileSync(temporary, content, { mode, flag: 'wx' })
  renameSync(temporary, path)
}

/** Content of a JSON file; undefined when it is missing or cut short. */
export function readJson<T>(path: string): T | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as T
  } catch {
    return undefined
  }
}
