/**
 * Death and return at full size: SIGKILL, then the time from the start of the new process to the effect of a small refresh that was published
 * while the role was down. The worst of several deaths counts.
 */
import type { Bench } from '../bench.ts'
import { type Entry, entryOf, worst } from '../entry.ts'
import type { Stage } from '../stage.ts'

const DEATHS = 3
const PROBE_ITEMS = 250
const LIMIT_MS = 180_000

export const restart: Bench = {
  name: 'restart',
  ownStage: true,
  about: 'seconds until book and live-view work again after SIGKILL, with 1.2 million rows of state',
  async run(context) {
    const stage = await context.stage()
    await stage.role('book')
    await stage.role('live-view')
    await untilLive(stage)
    const probe = stage.market.smallListings(['restart_probe'], PROBE_ITEMS)
    const entries: Entry[] = []
    for (const role of ['book', 'live-view'] as const) {
      const seconds: number[] = []
      const deaths = context.isQuick ? 1 : DEATHS
      for (let death = 1; death <= deaths; death++) {
        context.signal.throwIfAborted()
        context.say(`${role}: death ${death} of ${deaths}`)
        const former = await stage.role(role)
        former.kill('SIGKILL')
        await former.ended
        const { refreshes } = await stage.market.publish(probe, 1)
        if (role === 'live-view') await stage.judged.applied(refreshes, LIMIT_MS)
        const startedAt = performance.now()
        await stage.start(role, [role])
        await (role === 'book' ? stage.judged.applied(refreshes, LIMIT_MS) : untilLive(stage))
        seconds.push((performance.now() - startedAt) / 1000)
      }
      entries.push(entryOf(`${role}: SIGKILL to processing again`, 's', seconds, worst))
    }
    return entries
  },
}

const untilLive = (stage: Stage): Promise<void> => stage.caughtUp(['live-view'], LIMIT_MS)
