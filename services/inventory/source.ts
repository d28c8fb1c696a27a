/**
 * The game's platform as a source of inventories, over HTTP; tests bring their own.
 *
 * Reads `{base}/inventory/{account}/{app}/{context}` page by page (`more_items`, `last_assetid`) and `{base}/id/{name}` for
 * vanity names. Invariant: no read exceeds TOTAL_LIMIT_MS, no body PAGE_BYTES_MAX, no inventory ITEMS_MAX; a busy platform
 * (429, 5xx) is asked again with backoff, within that limit; redirects are not followed. An inventory that is cut off or
 * inconsistent is a failure and never a shorter inventory.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { retryAfterMs } from '#schemas/values/retry-after.ts'
import { assetsOf, type InventoryPage, inventoryPage, type PlatformAsset } from './asset.ts'

/** Where the platform is, and how it is asked. */
interface HttpSourceOptions {
  /** Root of the platform, without a trailing slash. */
  baseUrl: string
  /** Assets of one page. */
  pageSize?: number
  /** First pause after a refusal; it doubles each time. */
  retryAfterMs?: number
  /** Aborts when the process ends. */
  signal: AbortSignal
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
const RETRY_AFTER_MS = 500
const LONGEST_PAUSE_MS = 8_000

type Failure = Extract<InventoryAnswer, { kind: 'failed' }>
type Fetched = { status: number; text: string } | Failure

const failed = (reason: string, isBusy = false): Failure => ({ kind: 'failed', reason, isBusy })

/** Opens the platform. */
export function openHttpSource(options: HttpSourceOptions): InventorySource {
  const { baseUrl, pageSize = PAGE_SIZE, signal } = options
  const withinLimit = <T>(work: (limit: AbortSignal) => Promise<T>): Promise<T> =>
    work(AbortSignal.any([signal, AbortSignal.timeout(TOTAL_LIMIT_MS)]))
  return {
    read: accountId => withinLimit(limit => readAll(options, accountId, pageSize, limit)),
    resolve: name =>
      withinLimit(async limit => {
        const answer = await fetchWithRetries(options, `${baseUrl}/id/${encodeURIComponent(name)}?xml=1`, limit)
        if ('kind' in answer) return answer
        if (answer.status === 404) return { kind: 'unknown' }
        const [, accountId] = /<steamID64>(\d{17})<\/steamID64>/.exec(answer.text) ?? []
        if (accountId !== undefined) return { kind: 'found', accountId }
        if (answer.status === 200 && /<response>\s*<error>/.test(answer.text)) return { kind: 'unknown' }
        return failed(`the platform answered ${answer.status} to a name`)
      }),
  }
}

async function readAll(
  options: HttpSourceOptions,
  accountId: string,
  pageSize: number,
  limit: AbortSignal,
): Promise<InventoryAnswer> {
  const assets = new Map<string, PlatformAsset>()
  const scope = { accountId, imageRoot: `${options.baseUrl}/economy/image/` }
  let start: string | undefined
  for (;;) {
    const page = await readPage(options, accountId, { start, pageSize }, limit)
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
  options: HttpSourceOptions,
  accountId: string,
  { start, pageSize }: { start: string | undefined; pageSize: number },
  limit: AbortSignal,
): Promise<InventoryPage | Exclude<InventoryAnswer, { kind: 'found' }>> {
  const from = start === undefined ? '' : `&start_assetid=${start}`
  const path = `/inventory/${accountId}/${APP}/${CONTEXT}?l=english&count=${pageSize}${from}`
  const answer = await fetchWithRetries(options, options.baseUrl + path, limit)
  if ('kind' in answer) return answer
  if (answer.status === 404) return { kind: 'unknown' }
  if (answer.status === 401 || answer.status === 403) return { kind: 'private' }
  if (answer.status !== 200) return failed(`the platform answered ${answer.status}`)
  const page = inventoryPage.safeParse(jsonOf(answer.text))
  if (!page.success) return failed('a page is not in the form that is known')
  return page.data.success ? page.data : failed('the platform says that it did not succeed')
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Retries until there is an answer that a retry would not change. */
async function fetchWithRetries(options: HttpSourceOptions, url: string, limit: AbortSignal): Promise<Fetched> {
  let pauseMs = options.retryAfterMs ?? RETRY_AFTER_MS
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

/** The outcome of reading an inventory. */
export type InventoryAnswer =
  | { kind: 'found'; assets: readonly PlatformAsset[] }
  | { kind: 'private' }
  | { kind: 'unknown' }
  /** The platform did not answer as it should. */
  | { kind: 'failed'; reason: string; isBusy: boolean }

/** The platform. */
export interface InventorySource {
  /** Reads a whole inventory. */
  read(accountId: string): Promise<InventoryAnswer>
  /** The account id of a vanity name. */
  resolve(
    vanityName: string,
  ): Promise<{ kind: 'found'; accountId: string } | Exclude<InventoryAnswer, { kind: 'found' }>>
}
