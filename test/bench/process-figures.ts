/** CPU time and memory of a process that is not ours to ask, from Linux' /proc. */
import { readFileSync } from 'node:fs'

const TICKS_PER_SECOND = 100
const KIB_IN_MIB = 1024

/** CPU seconds of a process so far, of all of its threads. */
export function cpuSecondsOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // After the name, which may contain anything: state is the third field, user and system time the 14th and 15th.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

export function residentMibOf(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kib) / KIB_IN_MIB
}
