/**
 * The live-view sink working off a backlog, against plain pipelined HSETs of the same rows.
 *
 * The table is at full size: 41 rows an item. A change is one row, and counts when its field holds it afterwards; the sink also folds several rows of an item
 * into one command, keeps listings, and moves its position in the same transaction as the rows.
 */
import { type Measured, startBaseline } from '../baseline.ts'
import type { WriteRequest } from '../baselines/read-changes.ts'
import type { Bench } from '../bench.ts'
import { figureEntry, ratioEntry } from '../entry.ts'
import { measureSink } from '../sink-turns.ts'

const HSET = new URL('../baselines/pipelined-hset.ts', import.meta.url)

/** Changes a second into Redis. */
export const liveView: Bench = {
  name: 'live-view',
  about: 'changes a second that the live-view sink writes, against plain pipelined HSETs of the same rows',
  async run(context) {
    const stage = await context.stage()
    const { environment } = stage
    const hset = startBaseline(HSET)
    try {
      const turns = await measureSink(context, stage, {
        role: 'live-view',
        rowsOfAChange: 1,
        rows: round => hset.ask<number>('present', { ...round, environment } satisfies WriteRequest),
        baseline: round => hset.ask<Measured>('write', { ...round, environment } satisfies WriteRequest),
      })
      const { residentMib } = await (await stage.role('live-view')).figures()
      return [
        ratioEntry(
          { name: 'live-view: changes written, against plain pipelined HSETs', unit: 'changes/s', better: 'higher' },
          turns.map(({ rate }) => rate),
        ),
        ratioEntry(
          { name: 'live-view: CPU of a change, against a plain pipelined HSET', unit: 'us', better: 'lower' },
          turns.map(({ cpu }) => cpu),
        ),
        figureEntry({ name: 'live-view: memory with the whole market', unit: 'MiB', better: 'lower' }, residentMib),
      ]
    } finally {
      await hset.stop()
    }
  },
}
