/**
 * A client of a feed that loses its gateway and comes back at another one, with `Last-Event-ID`. It keeps the rows that it may rely on: those
 * of events up to the last id of each connection, so that a gap, a repeat or a wrong order of any row is there to be seen.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Side } from '#schemas/events/book-changed.ts'
import { within } from '#test/harness/eventually.ts'
import type { LedgerEntry } from '#test/harness/ledger.ts'
import { bookKey, type ExpectedChange } from '#test/harness/reference-fold.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import { changedRows, openSse, type SseClient, type SseEvent, upToLastId } from '#test/harness/sse-client.ts'

interface ResumingOptions {
  path: string
  key: string
  random: SeededRandom
  gateways(): readonly string[]
}

export type ResumingClient = Awaited<ReturnType<typeof openResumingClient>>

const AGAIN_MS = 100

/** Opens a client; resolves when its first stream is open. */
export async function openResumingClient(options: ResumingOptions) {
  const ending = new AbortController()
  const received: SseEvent[] = []
  let current: SseClient | undefined
  let connections = 0
  const opened = Promise.withResolvers<void>()

  const connect = async (): Promise<SseClient | undefined> => {
    const gateways = options.gateways()
    if (gateways.length === 0) return undefined
    const id = received.findLast(event => event.id !== undefined)?.id
    const headers: Record<string, string> = id === undefined ? {} : { 'last-event-id': id }
    const url = `${options.random.pick(gateways)}${options.path}`
    const client = await openSse(url, { key: options.key, headers }).catch(() => undefined)
    if (client?.status === 200) return client
    client?.close()
    return undefined
  }
  const run = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const client = await connect()
      if (client === undefined) {
        await pause(AGAIN_MS, undefined, { signal: ending.signal }).catch(() => undefined)
        continue
      }
      connections += 1
      current = client
      opened.resolve()
      while (!client.hasEnded() && !ending.signal.aborted) await pause(20)
      client.close()
      current = undefined
      received.push(...upToLastId(client.events))
    }
  }
  const running = run()
  const all = (): SseEvent[] => [...received, ...upToLastId(current?.events ?? [])]
  await within(opened.promise, `the first stream of ${options.path}`).catch(error => {
    ending.abort()
    throw error
  })
  return {
    path: options.path,
    connections: () => connections,
    /** Events other than changes, in order: `ready` of each connection, and any that should not be there. */
    notices: () => all().flatMap(({ event }) => (event.endsWith('.changed') ? [] : [event])),
    rows: () => all().flatMap(rowsOf),
    async stop(): Promise<void> {
      ending.abort()
      await running
    },
  }
}

function rowsOf(event: SseEvent): LedgerEntry[] {
  const side: Side = event.event === 'bids.changed' ? 'bid' : 'ask'
  return changedRows(event).flatMap(({ provider, seen_at, items }) =>
    items.map(({ item_id, price, qty, change }) => ({
      key: `${bookKey(side, provider)}|${item_id}`,
      what: [change, price, qty, Date.parse(seen_at)].join(' '),
    })),
  )
}

/** A change as a client of its side must receive it. */
export function entryOfDelivered({ side, provider, item_id, ...change }: ExpectedChange): LedgerEntry {
  const { price_micro_usd: micro, quantity, seen_at } = change
  // Hundredths of a dollar, halves up (DECISIONS.md, "Amounts and rates").
  const price = micro === null ? null : Number((BigInt(micro) + 5_000n) / 10_000n)
  return { key: `${bookKey(side, provider)}|${item_id}`, what: [change.change, price, quantity, seen_at].join(' ') }
}
