/**
 * A client of the API that asks for prices again and again while processes are killed, and keeps what was answered: one request at a time, so
 * that of two answers the second is the later one.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { expectFigure } from '#test/harness/ledger.ts'
import { bookKey, type ExpectedChange } from '#test/harness/reference-fold.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'

interface ReaderOptions {
  key: string
  random: SeededRandom
  itemIds: readonly number[]
  /** Address of the API; undefined while none runs. */
  address(): string | undefined
}

interface ReadRow {
  itemId: number
  provider: string
  seenAt: number
  price: number
  quantity: number
}

export type PriceReader = ReturnType<typeof startPriceReader>

const EVERY_MS = 25
const LIMIT_MS = 10_000
/** Of a long run the first rows and the last ones would do as well. */
const ROWS_MOST = 2_000_000

/** Asks the API for an item's prices in dollars; no rows unless it answers with 200. Rejects when no API answers. */
export async function askPrices(
  base: string,
  key: string,
  itemId: number,
): Promise<{ status: number; rows: ReadRow[] | undefined }> {
  const answer = await fetch(`${base}/v1/prices?item_id=${itemId}&currency=USD`, {
    headers: { authorization: `Bearer ${key}` },
    signal: AbortSignal.timeout(LIMIT_MS),
  })
  type Item = Record<'item_id' | 'lowest_ask' | 'quantity', number> & Record<'provider' | 'timestamp', string>
  const { items } = (await answer.json()) as { items: Item[] }
  if (answer.status !== 200) return { status: answer.status, rows: undefined }
  const rows = items.map(({ item_id, provider, timestamp, lowest_ask: price, quantity }) => ({
    itemId: item_id,
    provider,
    price,
    quantity,
    seenAt: Date.parse(timestamp),
  }))
  return { status: 200, rows }
}

export function startPriceReader({ key, random, itemIds, address }: ReaderOptions) {
  const ending = new AbortController()
  const statuses = new Map<number, number>()
  let [answeredAt, longestMs] = [performance.now(), 0]
  const noteGap = (): void => {
    longestMs = Math.max(longestMs, performance.now() - answeredAt)
  }
  const rows: ReadRow[] = []
  const ask = async (base: string): Promise<void> => {
    const answer = await askPrices(base, key, random.pick(itemIds))
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    if (answer.rows === undefined) return
    noteGap()
    answeredAt = performance.now()
    if (rows.length < ROWS_MOST) rows.push(...answer.rows)
  }
  const run = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const base = address()
      if (base !== undefined) await ask(base).catch(() => statuses.set(0, (statuses.get(0) ?? 0) + 1))
      await pause(EVERY_MS, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }
  const running = run()
  return {
    /** How often each status was answered; 0 for no answer. */
    statuses: statuses as ReadonlyMap<number, number>,
    rows: rows as readonly ReadRow[],
    /** The longest time between two answers of 200, in seconds, the time since the last one included. */
    longestGapS: () => longestMs / 1_000,
    async stop(): Promise<void> {
      if (!ending.signal.aborted) noteGap()
      ending.abort()
      await running
    },
  }
}

/** Holds what was answered to how long prices may be away, in seconds, and to the share of answers that may be refusals. */
export function expectAvailable(
  test: string,
  { statuses, longestGapS, rows }: PriceReader,
  { leastRows, awayS, refused }: { leastRows: number; awayS: number; refused: number },
): void {
  expect([...statuses.keys()].filter(status => ![0, 200, 503].includes(status))).to.deep.equal([])
  const answers = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  const value = (statuses.get(503) ?? 0) / Math.max(1, answers)
  const limit = { atMost: awayS }
  expectFigure({ test, what: 'longest time without prices', value: longestGapS(), unit: 's', limit })
  expectFigure({ test, what: 'answers that are 503', value, unit: 'share', limit: { atMost: refused } })
  expectFigure({ test, what: 'rows of prices read', value: rows.length, unit: 'values', limit: { atLeast: leastRows } })
}

/** A price in dollars: the provider's own, or converted with halves up. */
export const shownPrice = (price: number, currency: string, micro: number): number =>
  currency === 'USD' ? price : Number((BigInt(micro) + 5_000n) / 10_000n)

export const shownText = ({ seenAt, price, quantity }: Pick<ReadRow, 'seenAt' | 'price' | 'quantity'>): string =>
  [seenAt, price, quantity].join(' ')

/** Faults of rows that were read one after the other: a price that was never listed, or one older than before. */
export function wrongRows(rows: readonly ReadRow[], changes: readonly ExpectedChange[]): string[] {
  const listed = new Set<string>()
  for (const { side, provider, item_id, seen_at: seenAt, price_micro_usd: micro, price, ...row } of changes) {
    if (price === null || micro === null) continue
    const text = shownText({ seenAt, price: shownPrice(price, row.currency, micro), quantity: row.quantity })
    listed.add(`${bookKey(side, provider)}|${item_id} ${text}`)
  }
  const faults: string[] = []
  const newest = new Map<string, number>()
  for (const read of rows) {
    const { itemId, provider, seenAt } = read
    const row = `${bookKey('ask', provider)}|${itemId}`
    if (!listed.has(`${row} ${shownText(read)}`)) faults.push(`${row}: ${shownText(read)} was never listed`)
    if (seenAt < (newest.get(row) ?? 0)) faults.push(`${row}: of ${seenAt} after ${newest.get(row)}`)
    newest.set(row, Math.max(seenAt, newest.get(row) ?? 0))
  }
  return faults
}
