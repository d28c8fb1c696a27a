/**
 * Inventories of the game's platform, by account id or vanity name, and the catalog items that their assets are.
 *
 * Reads `{base}/inventory/{account}/{app}/{context}` page by page (`more_items`, `last_assetid`) and `{base}/id/{name}` for
 * vanity names, and caches answers for a minute. Invariant: an inventory is whole or not given at all; private, unknown and empty are
 * three answers. No read exceeds TOTAL_LIMIT_MS, no body PAGE_BYTES_MAX, no inventory ITEMS_MAX; a busy platform
 * (429, 5xx) is asked again with backoff, within that limit; redirects are not followed. An inventory that is cut off or
 * inconsistent is a failure and never a shorter inventory. Concurrent requests for an account are coalesced, and at most AT_ONCE
 * accounts are read at a time. The cache is bounded by its items.
 */
import { setTimeout as pause } from 'node:timers/promises'
import PQueue from 'p-queue'
import pRetry from 'p-retry'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { retryAfterMs } from '#schemas/values/retry-after.ts'
import { assetsOf, type InventoryPage, inventoryPage, type PlatformAsset } from './asset.ts'

export type { PlatformAsset } from './asset.ts'

export type InventoryAnswer = readonly PlatformAsset[] | 'private' | 'unknown'

export class PlatformFailure extends Error {
  readonly isBusy: boolean
  /** Before then it wants no request. */
  readonly waitMs: number

  constructor(reason: string, { isBusy = false, waitMs = 0 } = {}) {
    super(reason)
    this.isBusy = isBusy
    this.waitMs = waitMs
  }
}

/** The platform; tests bring their own. Both throw a {@link PlatformFailure}. */
interface InventorySource {
  read(accountId: string): Promise<InventoryAnswer>
  /** The account id of a vanity name; undefined when there is none. */
  resolve(vanityName: string): Promise<string | undefined>
}

export interface Inventories {
  /** By a 17-digit account id, or a vanity name; throws a {@link PlatformFailure}. */
  of(account: string): Promise<InventoryAnswer>
}

const ACCOUNT_ID = /^\d{17}$/
const CACHED_MS = 60_000
const CACHED_ITEMS = 200_000
const CACHED_ANSWERS = 4_000
const AT_ONCE = 4
const WAITING_MAX = 100

/** Opens the inventories of a platform; `clock` is monotonic, in milliseconds. */
export function openInventories(source: InventorySource, clock: () => number): Inventories {
  /** By account id or name, which has no 17 digits; oldest first. */
  const cache = new Map<string, { answer: Promise<unknown>; until: number; items: number }>()
  const queue = new PQueue({ concurrency: AT_ONCE })

  const evict = (): void => {
    let [items, answers] = [0, 0]
    for (const [key, entry] of [...cache].reverse()) {
      items += entry.items
      answers += 1
      if (items > CACHED_ITEMS || answers > CACHED_ANSWERS) cache.delete(key)
    }
  }
  async function readQueued<Answer>(key: string, read: (key: string) => Promise<Answer>): Promise<Answer> {
    if (queue.size >= WAITING_MAX) throw new PlatformFailure('too many inventories wait', { isBusy: true })
    return queue.add(() => read(key))
  }
  /** One answer for all that ask until it is a minute old; a failure is not kept. */
  function cached<Answer>(key: string, read: (key: string) => Promise<Answer>): Promise<Answer> {
    const cachedEntry = cache.get(key)
    if (cachedEntry && clock() < cachedEntry.until) return cachedEntry.answer as Promise<Answer>
    const answer = readQueued(key, read)
    const entry = { answer, until: Number.POSITIVE_INFINITY, items: 1 }
    cache.delete(key)
    cache.set(key, entry)
    answer.then(
      value => {
        entry.until = clock() + CACHED_MS
        entry.items = Array.isArray(value) ? value.length : 1
        evict()
      },
      () => cache.delete(key),
    )
    return answer
  }
  return {
    async of(account) {
      const accountId = ACCOUNT_ID.test(account) ? account : await cached(account, source.resolve)
      return accountId === undefined ? 'unknown' : cached(accountId, source.read)
    },
  }
}

/** The game among the platform's, and its items among the game's. */
const APP = 730
const CONTEXT = 2
const PAGE_SIZE = 2_000
const ITEMS_MAX = 50_000
const PAGE_BYTES_MAX = 16 * 2 ** 20
const REQUEST_LIMIT_MS = 8_000
const TOTAL_LIMIT_MS = 25_000
const RETRIES = 3
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 8_000

type Get = (path: string) => Promise<{ status: number; text: string }>

/** Opens the platform below a root without a trailing slash; `signal` aborts when the process ends. */
export function openHttpSource({
  baseUrl,
  signal,
  firstPauseMs = FIRST_PAUSE_MS,
}: {
  baseUrl: string
  signal: AbortSignal
  /** After a refusal; it doubles each time. */
  firstPauseMs?: number
}): InventorySource {
  const getWithinLimit = (): Get => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(TOTAL_LIMIT_MS)])
    return path => fetchWithRetries(baseUrl + path, firstPauseMs, limit)
  }
  return {
    read: accountId => readAll(getWithinLimit(), { accountId, imageRoot: `${baseUrl}/economy/image/` }),
    async resolve(name) {
      const { status, text } = await getWithinLimit()(`/id/${encodeURIComponent(name)}?xml=1`)
      if (status === 404) return undefined
      const [, accountId] = /<steamID64>(\d{17})<\/steamID64>/.exec(text) ?? []
      if (accountId !== undefined) return accountId
      if (status === 200 && /<response>\s*<error>/.test(text)) return undefined
      throw new PlatformFailure(`the platform answered ${status} to a name`)
    },
  }
}

async function readAll(get: Get, scope: { accountId: string; imageRoot: string }): Promise<InventoryAnswer> {
  const assets = new Map<string, PlatformAsset>()
  let start: string | undefined
  for (;;) {
    const page = await readPage(get, scope.accountId, start)
    if (typeof page === 'string') return page
    for (const asset of assetsOf(page, scope)) assets.set(asset.assetid, asset)
    if (!page.more_items) {
      if (assets.size > 0 || page.total_inventory_count === '0') return [...assets.values()]
      throw new PlatformFailure('a page without items counts some')
    }
    if (page.last_assetid === undefined || page.last_assetid === start)
      throw new PlatformFailure('a page leads nowhere')
    if (assets.size >= ITEMS_MAX) throw new PlatformFailure(`the inventory has more than ${ITEMS_MAX} items`)
    start = page.last_assetid
  }
}

async function readPage(
  get: Get,
  accountId: string,
  start: string | undefined,
): Promise<InventoryPage | 'private' | 'unknown'> {
  const from = start === undefined ? '' : `&start_assetid=${start}`
  const { status, text } = await get(`/inventory/${accountId}/${APP}/${CONTEXT}?l=english&count=${PAGE_SIZE}${from}`)
  if (status === 404) return 'unknown'
  if (status === 401 || status === 403) return 'private'
  if (status !== 200) throw new PlatformFailure(`the platform answered ${status}`)
  let page: InventoryPage
  try {
    page = inventoryPage.parse(JSON.parse(text))
  } catch {
    throw new PlatformFailure('a page is not in the form that is known')
  }
  if (!page.success) throw new PlatformFailure('the platform says that it did not succeed')
  return page
}

/** Retries until there is an answer that a retry would not change. */
async function fetchWithRetries(url: string, firstPauseMs: number, limit: AbortSignal): ReturnType<Get> {
  try {
    return await pRetry(() => fetchOnce(url, limit), {
      retries: RETRIES,
      minTimeout: firstPauseMs,
      signal: limit,
      async onFailedAttempt({ error, retriesLeft }) {
        const waitMs = error instanceof PlatformFailure ? error.waitMs : 0
        if (retriesLeft === 0 || waitMs > LONGEST_PAUSE_MS) throw error
        await pause(waitMs, undefined, { signal: limit })
      },
    })
  } catch (error) {
    if (error instanceof PlatformFailure) throw error
    throw new PlatformFailure(`the platform cannot be reached: ${(error as Error).message}`)
  }
}

async function fetchOnce(url: string, limit: AbortSignal): ReturnType<Get> {
  const { status, headers, body } = await fetch(url, {
    redirect: 'manual',
    headers: { accept: 'application/json, text/xml' },
    signal: AbortSignal.any([limit, AbortSignal.timeout(REQUEST_LIMIT_MS)]),
  })
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > PAGE_BYTES_MAX) throw new PlatformFailure(`a page has more than ${PAGE_BYTES_MAX} bytes`)
    chunks.push(chunk)
  }
  if (status !== 429 && status < 500) return { status, text: Buffer.concat(chunks).toString('utf8') }
  const waitMs = retryAfterMs(headers.get('retry-after'), Date.now())
  throw new PlatformFailure(`the platform answered ${status}`, { isBusy: status === 429, waitMs })
}

/**
 * The item of an asset, by its name; undefined when the catalog has none. Phases share a name, so the finish decides
 * among them; without a finish the asset is the item as a whole.
 */
export function matchAsset(
  catalog: Pick<CatalogReader, 'byId' | 'idsOfName'>,
  { market_hash_name, paint_index }: Pick<PlatformAsset, 'market_hash_name' | 'paint_index'>,
): CatalogItem | undefined {
  const items = catalog.idsOfName(market_hash_name).flatMap(id => catalog.byId(id) ?? [])
  const ofFinish =
    paint_index === null ? undefined : items.find(item => item.phase !== null && item.paint_index === paint_index)
  return ofFinish ?? items[0]
}
