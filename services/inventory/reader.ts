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
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { retryAfterMs } from '#schemas/values/retry-after.ts'
import { assetsOf, type InventoryPage, inventoryPage, type PlatformAsset } from './asset.ts'

export type { PlatformAsset } from './asset.ts'

export type InventoryAnswer =
  | { kind: 'found'; assets: readonly PlatformAsset[] }
  | { kind: 'private' }
  | { kind: 'unknown' }
  /** The platform did not answer as it should. */
  | { kind: 'failed'; reason: string; isBusy: boolean }

type Resolved = { kind: 'found'; accountId: string } | Exclude<InventoryAnswer, { kind: 'found' }>

/** The platform; tests bring their own. */
interface InventorySource {
  /** Reads a whole inventory. */
  read(accountId: string): Promise<InventoryAnswer>
  /** The account id of a vanity name. */
  resolve(vanityName: string): Promise<Resolved>
}

/** Reads inventories. */
export interface Inventories {
  /** By a 17-digit account id, or a vanity name. */
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
  const cache = new Map<string, { readAt: number; answer: InventoryAnswer | Resolved; items: number }>()
  const reading = new Map<string, Promise<InventoryAnswer>>()
  const queue = new PQueue({ concurrency: AT_ONCE })
  let items = 0

  const drop = (key: string): void => {
    items -= cache.get(key)?.items ?? 0
    cache.delete(key)
  }
  const fresh = (key: string): InventoryAnswer | Resolved | undefined => {
    const entry = cache.get(key)
    return entry && clock() - entry.readAt < CACHED_MS ? entry.answer : undefined
  }
  async function cached<Answer extends InventoryAnswer | Resolved>(
    key: string,
    read: (key: string) => Promise<Answer>,
  ): Promise<Answer> {
    const stored = fresh(key)
    if (stored) return stored as Answer
    const answer = await read(key)
    if (answer.kind === 'failed') return answer
    drop(key)
    const size = 1 + ('assets' in answer ? answer.assets.length : 0)
    cache.set(key, { readAt: clock(), answer, items: size })
    items += size
    for (const oldest of cache.keys()) {
      if (items <= CACHED_ITEMS && cache.size <= CACHED_ANSWERS) break
      drop(oldest)
    }
    return answer
  }
  const read = (account: string): Promise<InventoryAnswer> =>
    queue.add(async () => {
      if (ACCOUNT_ID.test(account)) return cached(account, source.read)
      const resolved = await cached(account, source.resolve)
      return resolved.kind === 'found' ? cached(resolved.accountId, source.read) : resolved
    })

  return {
    async of(account) {
      const ofName = fresh(account)
      const stored = ofName && 'accountId' in ofName ? fresh(ofName.accountId) : ofName
      if (stored) return stored as InventoryAnswer
      const underWay = reading.get(account)
      if (underWay !== undefined) return underWay
      if (queue.size >= WAITING_MAX) return failed('too many inventories wait', true)
      const answer = read(account).finally(() => reading.delete(account))
      reading.set(account, answer)
      return answer
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
const TRIES = 4
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 8_000

type Failure = Extract<InventoryAnswer, { kind: 'failed' }>

const failed = (reason: string, isBusy = false): Failure => ({ kind: 'failed', reason, isBusy })

type Get = (path: string) => Promise<{ status: number; text: string } | Failure>

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
      const answer = await getWithinLimit()(`/id/${encodeURIComponent(name)}?xml=1`)
      if ('kind' in answer) return answer
      if (answer.status === 404) return { kind: 'unknown' }
      const [, accountId] = /<steamID64>(\d{17})<\/steamID64>/.exec(answer.text) ?? []
      if (accountId !== undefined) return { kind: 'found', accountId }
      if (answer.status === 200 && /<response>\s*<error>/.test(answer.text)) return { kind: 'unknown' }
      return failed(`the platform answered ${answer.status} to a name`)
    },
  }
}

async function readAll(get: Get, scope: { accountId: string; imageRoot: string }): Promise<InventoryAnswer> {
  const assets = new Map<string, PlatformAsset>()
  let start: string | undefined
  for (;;) {
    const page = await readPage(get, scope.accountId, start)
    if ('kind' in page) return page
    for (const asset of assetsOf(page, scope)) assets.set(asset.assetid, asset)
    if (!page.more_items) {
      const isWhole = assets.size > 0 || page.total_inventory_count === '0'
      return isWhole ? { kind: 'found', assets: [...assets.values()] } : failed('a page without items counts some')
    }
    if (page.last_assetid === undefined || page.last_assetid === start) return failed('a page leads nowhere')
    if (assets.size >= ITEMS_MAX) return failed(`the inventory has more than ${ITEMS_MAX} items`)
    start = page.last_assetid
  }
}

async function readPage(
  get: Get,
  accountId: string,
  start: string | undefined,
): Promise<InventoryPage | Exclude<InventoryAnswer, { kind: 'found' }>> {
  const from = start === undefined ? '' : `&start_assetid=${start}`
  const answer = await get(`/inventory/${accountId}/${APP}/${CONTEXT}?l=english&count=${PAGE_SIZE}${from}`)
  if ('kind' in answer) return answer
  if (answer.status === 404) return { kind: 'unknown' }
  if (answer.status === 401 || answer.status === 403) return { kind: 'private' }
  if (answer.status !== 200) return failed(`the platform answered ${answer.status}`)
  try {
    const page = inventoryPage.parse(JSON.parse(answer.text))
    return page.success ? page : failed('the platform says that it did not succeed')
  } catch {
    return failed('a page is not in the form that is known')
  }
}

/** Retries until there is an answer that a retry would not change. */
async function fetchWithRetries(url: string, firstPauseMs: number, limit: AbortSignal): ReturnType<Get> {
  let pauseMs = firstPauseMs
  let last: Failure = failed('the platform was not asked')
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const answer = await fetchOnce(url, limit)
    if (!('kind' in answer) && answer.status !== 429 && answer.status < 500) return answer
    last = 'kind' in answer ? answer : failed(`the platform answered ${answer.status}`, answer.status === 429)
    if (attempt === TRIES) break
    const wait = Math.max(pauseMs, 'kind' in answer ? 0 : answer.waitMs)
    if (wait > LONGEST_PAUSE_MS) break
    try {
      await pause(wait, undefined, { signal: limit })
    } catch {
      break
    }
    pauseMs *= 2
  }
  return last
}

async function fetchOnce(
  url: string,
  limit: AbortSignal,
): Promise<{ status: number; text: string; waitMs: number } | Failure> {
  try {
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { accept: 'application/json, text/xml' },
      signal: AbortSignal.any([limit, AbortSignal.timeout(REQUEST_LIMIT_MS)]),
    })
    const chunks: Uint8Array[] = []
    let bytes = 0
    for await (const chunk of answer.body ?? []) {
      bytes += chunk.length
      if (bytes > PAGE_BYTES_MAX) return failed(`a page has more than ${PAGE_BYTES_MAX} bytes`)
      chunks.push(chunk)
    }
    const waitMs = retryAfterMs(answer.headers.get('retry-after'), Date.now())
    return { status: answer.status, text: Buffer.concat(chunks).toString('utf8'), waitMs }
  } catch (error) {
    return failed(`the platform cannot be reached: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/**
 * The item of an asset, by its name; undefined when the catalog has none. Phases share a name, so the finish decides
 * among them; without a finish the asset is the item as a whole.
 */
export function matchAsset(
  catalog: Pick<CatalogReader, 'byId' | 'idsOfName'>,
  { marketHashName, paintIndex }: Pick<PlatformAsset, 'marketHashName' | 'paintIndex'>,
): CatalogItem | undefined {
  const items = catalog.idsOfName(marketHashName).flatMap(id => catalog.byId(id) ?? [])
  const ofFinish =
    paintIndex === null ? undefined : items.find(item => item.phase !== null && item.paint_index === paintIndex)
  return ofFinish ?? items[0]
}

/** Opens the inventories of the platform at an address; none without one. */
export function openInventoriesAt(baseUrl: string | undefined, signal: AbortSignal): Inventories | undefined {
  return baseUrl === undefined
    ? undefined
    : openInventories(openHttpSource({ baseUrl, signal }), () => performance.now())
}
