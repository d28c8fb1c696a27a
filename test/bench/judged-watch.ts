/** A refresh that was not applied as a whole fails the benchmark that waits for it, so no figure is based on refreshes that the book refused. */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { within } from '#test/harness/eventually.ts'

const POLL_MS = 20

export type JudgedWatch = Awaited<ReturnType<typeof watchJudged>>

/** Watches the book's verdicts from the log's start on. */
export async function watchJudged(kafka: KafkaConnection) {
  const stop = new AbortController()
  const verdicts = new Map<string, RefreshJudged>()
  let arrived = Promise.withResolvers<void>()
  const following = await follow(kafka, 'refreshes', {
    from: 'start',
    signal: stop.signal,
    waitMs: POLL_MS,
    async onRecords(records) {
      for (const { value } of records) {
        if (value === null) continue
        const judged = kafka.codec.decode(value).value as RefreshJudged
        verdicts.set(`${judged.provider}|${judged.refresh_id}`, judged)
      }
      arrived.resolve()
      arrived = Promise.withResolvers()
    },
  })
  const all = async (refreshes: readonly string[]): Promise<void> => {
    for (const refresh of refreshes) {
      while (!verdicts.has(refresh) && !stop.signal.aborted) await Promise.race([arrived.promise, following.closed])
      const { verdict, reason } = verdicts.get(refresh) ?? {}
      if (verdict !== 'applied') throw new Error(`the refresh ${refresh} was ${verdict} (${reason})`)
    }
  }
  return {
    /** Resolves when all of these refreshes (`provider|refresh_id`) are applied. */
    applied: (refreshes: readonly string[], limitMs: number): Promise<void> =>
      within(all(refreshes), `${refreshes.length} refreshes to be judged`, limitMs),
    async close(): Promise<void> {
      stop.abort()
      arrived.resolve()
      await following.closed.catch(() => undefined)
    },
  }
}
