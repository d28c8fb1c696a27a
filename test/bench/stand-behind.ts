/** Lets a process take what processor time others leave. */
import { spawnSync } from 'node:child_process'
import { constants, setPriority } from 'node:os'

/**
 * Elsewhere bad clients would have machines of their own: here they take what processor time is left. With the lowest
 * priority alone, for machines without chrt, one of them that runs keeps a good one waiting for the rest of its slice, 3 ms.
 */
export function standBehind(pid: number): void {
  setPriority(pid, constants.priority.PRIORITY_LOW)
  spawnSync('chrt', ['--all-tasks', '--idle', '--pid', '0', String(pid)])
}
