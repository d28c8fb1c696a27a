/**
 * Answers of the catalog, serialised once per catalog and kept as bytes.
 *
 * Reads the catalog in memory. Its 40,000 items are 32 MB of JSON, which take 185 ms to write: all that depends on the catalog alone is
 * made in turns of the event loop, at its first use and once for all who wait for it. Invariant: everything here belongs to one
 * published version, which comes last when a catalog is published, so nothing is made of half a catalog; a filtered answer is cut
 * from the same bytes as the whole, and no more of it is in memory than its client is sent at a time.
 */
import type { CatalogReader } from '#infra/runtime/role.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import { ENUMERATED_FIELDS, type ItemsQuery } from '#schemas/api/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { itemPredicate, searchText } from './item-filters.ts'
import { paginationOf } from './listing.ts'

export interface CatalogPage {
  bytes: number
  /** A list is kept, so that any number of requests share it. */
  pieces: readonly Buffer[] | AsyncIterable<Buffer>
}

/** The texts of all items, each behind a comma; that of item `i` lies between `ends[i - 1]` and `ends[i]`, or begins its block. */
interface Serialised {
  items: readonly CatalogItem[]
  searchTexts: readonly string[]
  blocks: readonly Buffer[]
  ends: Uint32Array
}

/** Entries of which the text is made in one turn, and lies in one block: 400 kB on average. */
const BLOCK = 500
/** Of a filtered answer, copied for each client: a connection that is not read keeps 80 kB. */
const SLICE = 100

/** Opens the pages of a catalog; each is made at its first use. */
export function openCatalogPages(catalog: CatalogReader) {
  let cache: { version: string; answers: Map<string, Promise<unknown>>; items: readonly CatalogItem[] } | undefined
  const once = <T>(name: string, make: (items: readonly CatalogItem[]) => Promise<T>): Promise<T> => {
    const version = catalog.version()
    if (version !== cache?.version) cache = { version, answers: new Map(), items: catalog.items() }
    const answer = (cache.answers.get(name) as Promise<T> | undefined) ?? make(cache.items)
    cache.answers.set(name, answer)
    return answer
  }
  return {
    /** Makes the largest page, so that no request waits for it. */
    warm: () => void once('items', serialise),
    items: async (query: ItemsQuery) => pageOfItems(await once('items', serialise), query, catalog),
    metadata: () => once('metadata', metadataOf),
    images: (format: 'png' | 'webp') => once(format, items => imagesOf(items, format)),
  }
}

/** The texts of entries, each behind a comma, in blocks. */
async function textsOf<T>(entries: readonly T[], textOf: (entry: T) => string): Promise<Buffer[]> {
  const blocks: Buffer[] = []
  for (let at = 0; at < entries.length; at += BLOCK) {
    const texts = entries.slice(at, at + BLOCK).map(entry => `,${textOf(entry)}`)
    blocks.push(Buffer.from(texts.join('')))
    await nextTurn()
  }
  return blocks
}

const keptPage = (pieces: readonly Buffer[]): CatalogPage => ({ bytes: sizeOf(pieces), pieces })
const sizeOf = (pieces: readonly Buffer[]): number => pieces.reduce((sum, { length }) => sum + length, 0)

/** Blocks without the comma before the first entry. */
const withoutComma = ([first, ...others]: readonly Buffer[]): Buffer[] => (first ? [first.subarray(1), ...others] : [])

async function serialise(items: readonly CatalogItem[]): Promise<Serialised> {
  const ends = new Uint32Array(items.length)
  const searchTexts: string[] = []
  let end = 0
  const blocks = await textsOf(items, item => {
    const at = searchTexts.push(searchText(item.market_hash_name)) - 1
    const text = JSON.stringify(item)
    end = (at % BLOCK === 0 ? 0 : end) + 1 + Buffer.byteLength(text)
    ends[at] = end
    return text
  })
  return { items, searchTexts, blocks, ends }
}

function pageOfItems(all: Serialised, query: ItemsQuery, { idsOfName }: CatalogReader): CatalogPage {
  const { items, searchTexts, blocks, ends } = all
  const fits = itemPredicate(query, { searchTexts, idsOfName })
  const { offset } = query
  if (!fits && query.limit === undefined && offset === 0) {
    const ending = endingOf({ limit: Math.max(1, items.length), offset }, items.length)
    return keptPage([OPENING, ...withoutComma(blocks), ending])
  }
  const matches: number[] = []
  for (let i = 0; i < items.length; i++) if (!fits || fits(items[i] as CatalogItem, i)) matches.push(i)
  const limit = query.limit ?? Math.max(1, matches.length - offset)
  const ending = endingOf({ limit, offset }, matches.length)
  const shown = matches.slice(offset, offset + limit)
  const startOf = (index: number): number => (index % BLOCK === 0 ? 0 : (ends[index - 1] as number))
  const textOf = (index: number): Buffer =>
    (blocks[Math.floor(index / BLOCK)] as Buffer).subarray(startOf(index), ends[index])
  const firstComma = Math.min(1, shown.length)
  const bytes = shown.reduce((sum, index) => sum + (ends[index] as number) - startOf(index), -firstComma)
  async function* pieces(): AsyncGenerator<Buffer, void, void> {
    yield OPENING
    for (let at = 0; at < shown.length; at += SLICE) {
      yield Buffer.concat(shown.slice(at, at + SLICE).map(textOf)).subarray(at === 0 ? 1 : 0)
      await nextTurn()
    }
    yield ending
  }
  return { bytes: OPENING.length + bytes + ending.length, pieces: pieces() }
}

const OPENING = Buffer.from('{"items":[')

function endingOf(page: { limit: number; offset: number }, total: number): Buffer {
  const pagination = { ...paginationOf(page, total), next_cursor: null }
  return Buffer.from(`],"pagination":${JSON.stringify(pagination)}}`)
}

async function metadataOf(items: readonly CatalogItem[]): Promise<CatalogPage> {
  const filters: Record<string, unknown[]> = {}
  for (const field of ENUMERATED_FIELDS) {
    filters[field] = [...new Set(items.map(item => item[field]).filter(value => value !== null))].sort()
    await nextTurn()
  }
  return keptPage([Buffer.from(JSON.stringify({ catalog: { total_items: items.length }, filters }))])
}

/** Phases of a finish share a display name and have images of their own, so a name may have several. */
async function imagesOf(items: readonly CatalogItem[], format: 'png' | 'webp'): Promise<CatalogPage> {
  const byName = new Map<string, Set<string>>()
  for (const [at, { market_hash_name: name, image_url: url }] of items.entries()) {
    if (at % BLOCK === 0) await nextTurn()
    if (url === null) continue
    const images = byName.get(name) ?? new Set()
    byName.set(name, images.add(format === 'webp' ? url.replace(/\.png$/, '.webp') : url))
  }
  const blocks = await textsOf(
    [...byName],
    ([name, images]) => `${JSON.stringify(name)}:${JSON.stringify([...images])}`,
  )
  return keptPage([Buffer.from('{'), ...withoutComma(blocks), Buffer.from('}')])
}
