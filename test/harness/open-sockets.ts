/** The TCP connections that a process holds to some ports, from Linux' /proc: what it says of itself is not asked for. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

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

/** Counts a process's connections to Kafka from now on. */
export function watchConnections(pid: number, addresses: readonly string[]) {
  const ports = new Set(addresses.map(address => Number(address.slice(address.lastIndexOf(':') + 1))))
  const seen = new Set<number>()
  let most = 0
  const count = (): void => {
    const open = connectionsTo(pid, ports)
    most = Math.max(most, open.size)
    for (const port of open) seen.add(port)
  }
  count()
  const timer = setInterval(count, COUNT_EVERY_MS)
  return { most: () => most, seen: () => seen.size, stop: () => clearInterval(timer) }
}
