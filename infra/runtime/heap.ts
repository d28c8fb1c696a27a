/**
 * Keeps the heap of a process near what it holds, for roles that hold much for long and make little garbage.
 *
 * By default V8 lets a heap grow to several times its contents before it collects. Invariant: nothing is limited, so a
 * role that needs more gets it; the price is a collection more often, beside the main thread for the most part.
 *
 * Measured with 10,000 idle clients of 5,000 keys (`bench --only feed-idle`): 493 MiB and 0.15 cores without this; growing
 * by 25 percent 248 MiB and 0.33 cores, by 35 percent 254 and 0.32, by 50 percent 278 and 0.26. Not taken:
 * `--max-semi-space-size=1` alone, 433 MiB; with `--max-old-space-size=200` 254 MiB and 0.31 cores, but a gateway whose
 * clients are slow may need more than any limit, and would end.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

type Collect = (options: { execution: 'sync'; type: 'major'; flavor: 'last-resort' }) => void

/** How far the heap may grow over its contents before it is collected. */
const GROWING_PERCENT = 35

/** From now on; the space of young objects stays as small as it begins. */
export function keepHeapSmall(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`)
  setFlagsFromString('--semi-space-growth-factor=1')
}

/** Collects all garbage at once, some 100 ms for 100 MB: for the end of a start, when nobody waits. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as Collect
  collect({ execution: 'sync', type: 'major', flavor: 'last-resort' })
}
