/**
 * A network of their own for processes of a bench, set as services/README.md advises for a machine of gateways.
 *
 * Makes a network namespace (Linux) that ends with its first process, so nothing of the machine's own is changed.
 */
import { spawnSync } from 'node:child_process'

/** What comes before a process's own command line. */
export type CommandPrefix = readonly string[]

/** Most bytes that the kernel keeps of a connection's unread ones: that page's `net.ipv4.tcp_wmem`. */
const SEND_BUFFERS = '4096 16384 262144'
const SETTING_UP = `ip link set lo up && echo '${SEND_BUFFERS}' > /proc/sys/net/ipv4/tcp_wmem && exec "$@"`

/** Throws where this machine lets none be made: what is measured without one is another thing. */
export function requireOwnNetwork(bench: string): void {
  const { status, error, stderr } = spawnSync(newNetwork[0] as string, [...newNetwork.slice(1), 'true'], {
    timeout: 5_000,
    encoding: 'utf8',
  })
  if (status === 0) return
  const reason = error?.message ?? stderr.trim()
  throw new Error(`${bench}: no network namespace can be made, and it means nothing without one: ${reason}`)
}

/** For the first process, which keeps it. */
export const newNetwork: CommandPrefix = ['unshare', '--map-root-user', '--net', 'sh', '-c', SETTING_UP, 'sh']

/** For others. */
export const networkOf = (pid: number): CommandPrefix => {
  return ['nsenter', '--user', '--net', '--preserve-credentials', '--target', String(pid)]
}
