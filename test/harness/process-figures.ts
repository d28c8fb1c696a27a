/** CPU time, memory and connections of a process, from Linux' /proc: what it says of itself is not asked for. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

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

export const isStopped = (pid: number): boolean => /\) T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))

const ESTABLISHED = '01'
const SOCKET = /^socket:\[(\d+)\]$/

/** Local ports of a process's open connections to ports of others. */
function connectionsTo(pid: number, ports: ReadonlySet<number>): Set<number> {
  const byInode = new Map(['tcp', 'tcp6'].flatMap(family => connectionsOf(pid, family, ports)))
  const open = readdirSync(`/proc/${pid}/fd`).flatMap(fd => byInode.get(inodeOf(pid, fd) ?? '') ?? [])
  return new Set(open)
}

/** Inode and local port of each connection of the process's network. */
function connectionsOf(pid: number, family: string, ports: ReadonlySet<number>): [string, number][] {
  const lines = readFileSync(`/proc/${pid}/net/${family}`, 'utf8').trim().split('\n').slice(1)
  return lines.flatMap(line => {
    const [, local = '', remote = '', state, , , , , , inode = ''] = line.trim().split(/\s+/)
    return state === ESTABLISHED && ports.has(portOf(remote)) ? [[inode, portOf(local)]] : []
  })
}

const portOf = (address: string): number => Number.parseInt(address.slice(address.lastIndexOf(':') + 1), 16)

/** Undefined where the descriptor is no socket, or was closed meanwhile. */
function inodeOf(pid: number, fd: string): string | undefined {
  try {
    return SOCKET.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]
  } catch {
    return undefined
  }
}

const COUNT_EVERY_MS = 25

export function watchConnections(pid: number, addresses: readonly string[]) {
  const ports = new Set(addresses.map(address => Number(address.slice(address.lastIndexOf(':') + 1))))
  const seen = new Set<number>()
  const count = (): void => {
    for (const port of connectionsTo(pid, ports)) seen.add(port)
  }
  count()
  const timer = setInterval(count, COUNT_EVERY_MS).unref()
  return { seen: () => seen.size, stop: () => clearInterval(timer) }
}
