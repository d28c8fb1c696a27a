/**
 * When the heap of a process is collected: choices for kinds of roles and of work, each for the process as a whole.
 *
 * None limits the heap: a role that needs more memory gets it.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const HOLDING_PERCENT = 35
const ANSWERING_PERCENT = 100

/**
 * For roles that hold much for long and make little garbage: the heap stays near what it holds, where V8 by itself lets it grow to
 * several times that; the space of young objects stays as small as it begins. The price is a collection more often, beside
 * the main thread for the most part.
 */
export function keepHeapSmall(): void {
  setFlagsFromString(`--heap-growing-percent=${HOLDING_PERCENT}`)
  setFlagsFromString('--semi-space-growth-factor=1')
}

/**
 * For work that makes much garbage in a role that makes little, from now on: the space of young objects may grow to 48 MB. Replays beside
 * hostile clients took 0.7 cores without this, four fifths of it for collections of one megabyte each.
 */
export function letYoungHeapGrow(): void {
  setFlagsFromString('--semi-space-growth-factor=2')
}

/**
 * For roles whose answers pass through buffers: those count as a part of the heap, which may grow to twice what it holds.
 * By itself V8 marks the whole heap after every 64 MB of buffers, dead or not.
 */
export function countBuffersWithHeap(): void {
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  setFlagsFromString(`--heap-growing-percent=${ANSWERING_PERCENT}`)
}

/** Collects all garbage at once, some 100 ms for 100 MB: for the end of a start, when no request waits. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: object) => void
  collect({ execution: 'sync', type: 'major', flavor: 'last-resort' })
}
