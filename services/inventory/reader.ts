/**
 * Inventories of the game's platform, by account id or vanity name, and the catalog items that their assets are.
 *
 * Caches answers for a minute. Invariant: an inventory is whole or not given at all; private, unknown and empty are three
 * answers. Concurrent requests for an account are coalesced, and at most AT_ONCE accounts are read at a time. The cache is
 * bounded by its items.
 */
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { PlatformAsset } from './asset.ts'
import { type InventoryAnswer, type InventorySource, openHttpSource } from './source.ts'

export type { PlatformAsset } from './asset.ts'

/** Reads inventories. */
export interface Inventories {
  /** By a 17-digit account id, or a vanity name. */
  of(account: string): Promise<InventoryAnswer>
}

const ACCOUNT_ID = /^\d{17}$/
const KEPT_MS = 60_000
const KEPT_ITEMS = 200_000
const KEPT_ACCOUNTS = 2_000
const AT_ONCE = 4
const WAITING_MAX = 100

interface Kept {
  readAt: number
  answer: InventoryAnswer
  items: number
}

/** Opens the inventories of a platform; `clock` is monotonic, in milliseconds. */
export function openInventories(source: InventorySource, clock: () => number): Inventories {
  const kept = new Map<string, Kept>()
  const names = new Map<string, { readAt: number; accountId: string }>()
  const reading = new Map<string, Promise<InventoryAnswer>>()
  const slots = openSlots()
  let items = 0

  const forget = (key: string): void => {
    items -= kept.get(key)?.items ?? 0
    kept.delete(key)
  }
  const keep = (key: string, answer: InventoryAnswer): void => {
    if (answer.kind === 'failed') return
    forget(key)
    const size = answer.kind === 'found' ? answer.assets.length + 1 : 1
    kept.set(key, { readAt: clock(), answer, items: size })
    items += size
    for (const oldest of kept.keys()) {
      if (items <= KEPT_ITEMS && kept.size <= KEPT_ACCOUNTS) break
      forget(oldest)
    }
  }
  const resolved = async (account: string): Promise<string | InventoryAnswer> => {
    if (ACCOUNT_ID.test(account)) return account
    const known = names.get(account)
    if (known && clock() - known.readAt < KEPT_MS) return known.accountId
    const found = await source.resolve(account)
    if (found.kind !== 'found') return found
    names.delete(account)
    names.set(account, { readAt: clock(), accountId: found.accountId })
    const [oldest] = names.keys()
    if (names.size > KEPT_ACCOUNTS && oldest !== undefined) names.delete(oldest)
    return found.accountId
  }
  const readNow = (account: string): Promise<InventoryAnswer> =>
    slots(async () => {
      const accountId = await resolved(account)
      if (typeof accountId !== 'string') {
        keep(account, accountId)
        return accountId
      }
      const known = fresh(accountId)
      if (known) return known
      const answer = await source.read(accountId)
      keep(accountId, answer)
      return answer
    })
  const fresh = (key: string): InventoryAnswer | undefined => {
    const known = kept.get(key)
    return known && clock() - known.readAt < KEPT_MS ? known.answer : undefined
  }

  return {
    async of(account) {
      const known = fresh(account)
      if (known) return known
      const underWay = reading.get(account) ?? readNow(account).finally(() => reading.delete(account))
      reading.set(account, underWay)
      return underWay
    },
  }
}

/** Runs some work concurrently, and queues some; what exceeds that fails as busy. */
function openSlots(): (work: () => Promise<InventoryAnswer>) => Promise<InventoryAnswer> {
  let free = AT_ONCE
  const waiting: (() => void)[] = []
  return async work => {
    if (free === 0) {
      if (waiting.length >= WAITING_MAX) return { kind: 'failed', reason: 'too many inventories wait', isBusy: true }
      await new Promise<void>(resolve => waiting.push(resolve))
    } else free -= 1
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else free += 1
    }
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
