/**
 * Clients of the API that read a market at rest, again and again, and hold every answer against the reference.
 *
 * They ask for items, for pages of listings and for bulk snapshots. Invariant: an answer of 200 is right to the last row, or
 * is noted as wrong; any other status is counted; a body that breaks off counts as `cut` and not as an answer.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Side } from '#schemas/events/book-changed.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { bookKey, type Expected, type ExpectedRow } from '#test/harness/reference-fold.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'

/** What the readers read, and where. */
export interface ExactOptions {
  baseUrl: string
  key: string
  random: SeededRandom
  books: Expected['books']
}

/** Readers that read when asked to, or until they are stopped. */
export interface ExactReaders {
  /** `items 200` → how often. */
  readonly counts: ReadonlyMap<string, number>
  /** Reads an item of each partition and a page of each side; what was not answered rightly. */
  rows(): Promise<string[]>
  /** Reads a bulk snapshot of one provider of each side, which needs all of the view; what was not answered rightly. */
  bulks(): Promise<string[]>
  /** Reads the bulk snapshots of all providers: each partition's follows its table in its own time. */
  wholeBulks(): Promise<string[]>
  /** Reads on and on; what is answered wrongly is `faults`. */
  begin(): void
  readonly faults: readonly string[]
  stop(): Promise<void>
}

/** How an answer of 200 begins that is not the reference. */
export const WRONG = 'wrong: '

const LIMIT_MS = 60_000
const PAGE = 100
const ITEM_READERS = 3
const SIDES: readonly Side[] = ['ask', 'bid']

interface Entry {
  item_id: number
  provider: string
  lowest_ask?: number
  highest_bid?: number
  quantity?: number
  num_bids?: number
}

/** Opens the readers of a market. */
export function openExactReaders({ baseUrl, key, random, books }: ExactOptions): ExactReaders {
  const ending = new AbortController()
  const counts = new Map<string, number>()
  const faults: string[] = []
  const reference = openReference(books)
  const reads = openReads({ baseUrl, key, random, counts }, reference)

  const again = async (read: () => Promise<string>, everyMs: number): Promise<void> => {
    while (!ending.signal.aborted) {
      const answer = await read()
      if (answer.startsWith(WRONG)) faults.push(answer)
      await pause(everyMs, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }
  const anySide = () => random.pick(SIDES)
  const running: Promise<void>[] = []
  return {
    counts,
    faults,
    async rows() {
      const ofItems = SIDES.flatMap(side => reference.ofEachPartition.map(itemId => reads.item(side, itemId)))
      return problemsIn([...ofItems, ...SIDES.map(reads.page)])
    },
    bulks: () => problemsIn(SIDES.map(side => reads.bulk(side, [random.pick(reference.providers(side))]))),
    wholeBulks: () => problemsIn(SIDES.map(side => reads.bulk(side, []))),
    begin() {
      const item = () => again(() => reads.item(anySide(), random.pick(reference.itemIds)), 10)
      running.push(...Array.from({ length: ITEM_READERS }, item))
      const someBulk = () => {
        const side = anySide()
        const some = reference.providers(side).filter(() => random.chance(0.5))
        return reads.bulk(side, some)
      }
      running.push(
        again(() => reads.page(anySide()), 30),
        again(someBulk, 300),
      )
    },
    async stop() {
      ending.abort()
      await Promise.all(running)
    },
  }
}

const problemsIn = async (answers: readonly Promise<string>[]): Promise<string[]> =>
  (await Promise.all(answers)).filter(answer => answer !== '200')

/** The three reads; each resolves with `200`, another status, `cut`, or what is wrong. */
function openReads(
  { baseUrl, key, random, counts }: Omit<ExactOptions, 'books'> & { counts: Map<string, number> },
  reference: ReturnType<typeof openReference>,
) {
  const ask = async (kind: string, path: string, method = 'GET'): Promise<{ status: string; text: string }> => {
    const headers = { authorization: `Bearer ${key}` }
    const answer = await fetch(baseUrl + path, { method, headers, signal: AbortSignal.timeout(LIMIT_MS) })
      .then(async response => ({ status: String(response.status), text: await response.text() }))
      .catch(() => ({ status: 'cut', text: '' }))
    const name = `${kind} ${answer.status}`
    counts.set(name, (counts.get(name) ?? 0) + 1)
    return answer
  }
  const item = async (side: Side, itemId: number): Promise<string> => {
    const { status, text } = await ask('items', `/v1/${PATHS[side]}?item_id=${itemId}&currency=USD`)
    if (status !== '200') return status
    return judged(`${side} ${itemId}`, rowsIn(JSON.parse(text).items), reference.ofItem(side, itemId))
  }
  const page = async (side: Side): Promise<string> => {
    const provider = random.pick(reference.providers(side))
    const all = reference.listing(side, [provider])
    const offset = random.integer(0, Math.max(0, all.length - PAGE))
    const query = `providers=${provider}&limit=${PAGE}&offset=${offset}&currency=USD`
    const { status, text } = await ask('pages', `/v1/${PATHS[side]}?${query}`)
    if (status !== '200') return status
    const { items, pagination } = JSON.parse(text)
    const rows = [...rowsIn(items), `of ${pagination.total}`]
    const expected = [...all.slice(offset, offset + PAGE), `of ${all.length}`]
    return judged(`${side} page of ${provider} at ${offset}`, rows, expected)
  }
  /** No providers: all of them. */
  const stream = async (side: Side, some: readonly string[]): Promise<string> => {
    const query = some.map(provider => `providers=${provider}`).join('&')
    const { status, text } = await ask('bulk', `/v1/${PATHS[side]}?${query}`, 'POST')
    if (status !== '200') return status
    const rows = rowsIn(text.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line)])))
    return judged(`${side} bulk`, rows, reference.listing(side, some.length > 0 ? some : reference.providers(side)))
  }
  // A key may have one stream at a time.
  let streaming: Promise<unknown> = Promise.resolve()
  const bulk = (side: Side, some: readonly string[]): Promise<string> => {
    const read = streaming.then(() => stream(side, some))
    streaming = read
    return read
  }
  return { item, page, bulk }
}

/** `200`, or what is wrong. */
function judged(what: string, found: readonly string[], expected: readonly string[]): string {
  const at = found.findIndex((row, i) => row !== expected[i])
  if (at < 0 && found.length === expected.length) return '200'
  const which = at < 0 ? `${found.length} of ${expected.length} rows` : `row ${at} is ${found[at]}, not ${expected[at]}`
  return `${WRONG}${what}: ${which}`
}

const PATHS: Record<Side, string> = { ask: 'prices', bid: 'bids' }

const rowsIn = (entries: readonly Entry[]): string[] =>
  entries.map(({ item_id, provider, lowest_ask, highest_bid, quantity, num_bids }) =>
    [item_id, provider, lowest_ask ?? highest_bid, quantity ?? num_bids].join(' '),
  )

/** What the answers must be, in their order: provider, partition, item. */
function openReference(books: Expected['books']) {
  const sides = new Map<Side, Map<string, string[]>>(SIDES.map(side => [side, new Map()]))
  const items = new Map<string, string[]>()
  const itemIds = new Set<number>()
  for (const [key, book] of [...books].sort(([one], [other]) => (one < other ? -1 : 1))) {
    const [side, provider = ''] = key.split('|') as [Side, string]
    const ids = [...book.keys()].sort((a, b) => partitionOfItem(a) - partitionOfItem(b) || a - b)
    const rows = ids.map(itemId => {
      const row = rowText(itemId, provider, book.get(itemId) as ExpectedRow)
      const ofItem = items.get(`${side}${itemId}`)
      if (ofItem) ofItem.push(row)
      else items.set(`${side}${itemId}`, [row])
      itemIds.add(itemId)
      return row
    })
    if (bookKey(side, provider) === key && rows.length > 0) sides.get(side)?.set(provider, rows)
  }
  const all = [...itemIds]
  const ofEachPartition = new Map(all.map(itemId => [partitionOfItem(itemId), itemId]))
  return {
    itemIds: all,
    ofEachPartition: [...ofEachPartition.values()],
    providers: (side: Side): string[] => [...(sides.get(side)?.keys() ?? [])],
    ofItem: (side: Side, itemId: number): string[] => items.get(`${side}${itemId}`) ?? [],
    listing: (side: Side, providers: readonly string[]): string[] =>
      providers.flatMap(provider => sides.get(side)?.get(provider) ?? []),
  }
}

/** In US dollars: native where they are, else of the micro-dollars, halves up. */
function rowText(
  itemId: number,
  provider: string,
  { price, currency, price_micro_usd, quantity }: ExpectedRow,
): string {
  const shown = currency === 'USD' ? price : Number((BigInt(price_micro_usd) + 5_000n) / 10_000n)
  return [itemId, provider, shown, quantity].join(' ')
}
