/**
 * Judges a sale and reads its details: what passes is published as SaleObserved.
 *
 * Pure but for the count of a refresh. Invariant: the same sale gives the same `sale_id` in every refresh in which it is seen: the
 * provider's own, or a digest of the sale's members where it has none. Sales whose members are all the same are
 * numbered in their refresh, so n of them are n however often a list shows them, and of several lists the one that shows the most
 * counts. The first has the digest alone.
 */
import { createHash } from 'node:crypto'
import { NO_PATTERN, type SaleCharm, type SaleObserved, type SaleSticker } from '#schemas/events/sale-observed.ts'
import { isFromTheFuture } from '#schemas/values/event-time.ts'
import { type Instant, parseInstant } from '#schemas/values/instant.ts'
import { isAbsent, isText, isWebAddress, offerFault } from './entry.ts'
import type { RawSale } from './source.ts'

const ID_MAX_LENGTH = 128
const LINK_MAX_LENGTH = 2_048
/** Of a sticker or charm: with all of them an event of a feed keeps to its line (DECISIONS.md, "Feeds"). */
const NAME_MAX_LENGTH = 128
const LIST_MAX_LENGTH = 16
const SLOT_MAX = 4
const INT_MAX = 2 ** 31 - 1

/** How often each digest was seen in a refresh so far. */
export type SeenSales = Map<string, number>

/** Judges a sale of a refresh and, where it has no id, counts it. What of its details is not known, or in no known form, is null. */
export function judgeSale(
  raw: RawSale,
  context: { provider: string; currency: string; usdRate: string; observedAt: number; priceMax: number },
  seen: SeenSales,
): { sale: SaleObserved } | { fault: string } {
  const fault = offerFault(raw, context.priceMax) ?? saleFault(raw, context.observedAt)
  if (fault) return { fault }
  const sale = {
    provider: context.provider,
    market_hash_name: raw.market_hash_name as string,
    phase: isAbsent(raw.phase) ? null : (raw.phase as string),
    price: raw.price as number,
    currency: context.currency,
    sold_at: soldAtOf(raw.sold_at) as Instant,
    float: numberIn(raw.float, 1) ?? null,
    paint_seed: integerIn(raw.paint_seed, INT_MAX) ?? null,
    stickers: listOf(raw.stickers, stickerOf),
    charms: listOf(raw.charms, charmOf),
    inspect_in_game: isLink(raw.inspect_in_game) ? raw.inspect_in_game : null,
    screenshot_front: isWebAddress(raw.screenshot_front) ? raw.screenshot_front : null,
    screenshot_back: isWebAddress(raw.screenshot_back) ? raw.screenshot_back : null,
  }
  const saleId = isAbsent(raw.sale_id) ? numbered(digest(sale), seen) : String(raw.sale_id)
  return { sale: { ...sale, sale_id: saleId, usd_rate: context.usdRate, observed_at: context.observedAt } }
}

function saleFault(raw: RawSale, observedAt: number): string | undefined {
  if (isAbsent(raw.sold_at)) return 'sold_at_missing'
  const soldAt = soldAtOf(raw.sold_at)
  if (soldAt === undefined || isFromTheFuture(soldAt, observedAt)) return 'sold_at_invalid'
  return isAbsent(raw.sale_id) || isIdentifier(raw.sale_id) ? undefined : 'sale_id_invalid'
}

const isIdentifier = (value: unknown): boolean =>
  typeof value === 'number' ? Number.isSafeInteger(value) : isText(value, ID_MAX_LENGTH)

/** A number of seconds is below it until the year 5138, one of milliseconds above it since 1973. */
const FIRST_MS = 1e11
/** Before the game's market opened nothing was sold: what lies before it is in a unit that is not known. */
const MARKET_OPENED_AT = Date.UTC(2013, 7, 1)

function soldAtOf(value: unknown): Instant | undefined {
  const text = String(value).trim()
  const number = /^\d{1,15}(\.\d+)?$/.test(text) ? Number(text) : undefined
  const instant =
    number === undefined
      ? parseInstant(text.replace(/^(\S{10}) +/, '$1T'))
      : Math.round(number < FIRST_MS ? number * 1_000 : number)
  return instant !== undefined && instant >= MARKET_OPENED_AT ? instant : undefined
}

/** A list whose element is in no known form is not known as a whole: the rest of it would deny that element. */
function listOf<T>(value: unknown, read: (element: object, at: number) => T | undefined): T[] | null {
  if (isAbsent(value)) return null
  // JSONata gives the only element of a list by itself; null is an empty slot.
  const elements: unknown[] = Array.isArray(value) ? value : [value]
  if (elements.length > LIST_MAX_LENGTH) return null
  const known: T[] = []
  for (const [at, element] of elements.entries()) {
    if (element === null) continue
    const one = read(Object(element), at)
    if (one === undefined) return null
    known.push(one)
  }
  return known
}

function stickerOf(
  { name, slot, wear }: Partial<Record<keyof SaleSticker, unknown>>,
  at: number,
): SaleSticker | undefined {
  const slotNumber = integerIn(isAbsent(slot) ? at : slot, SLOT_MAX)
  const share = numberIn(isAbsent(wear) ? 0 : wear, 1)
  if (!isNamed(name) || slotNumber === undefined || share === undefined) return undefined
  return { name, slot: slotNumber, wear: share }
}

const charmOf = ({ name, pattern_id: pattern }: Partial<Record<keyof SaleCharm, unknown>>): SaleCharm | undefined =>
  isNamed(name) ? { name, pattern_id: integerIn(pattern, INT_MAX) ?? NO_PATTERN } : undefined

const isLink = (value: unknown): value is string => isText(value, LINK_MAX_LENGTH) && value !== ''

const isNamed = (value: unknown): value is string => isText(value, NAME_MAX_LENGTH) && value !== ''

function numberIn(value: unknown, most: number): number | undefined {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof number === 'number' && number >= 0 && number <= most ? number : undefined
}

function integerIn(value: unknown, most: number): number | undefined {
  const number = numberIn(value, most)
  return Number.isInteger(number) ? number : undefined
}

function numbered(sale: string, seen: SeenSales): string {
  const number = (seen.get(sale) ?? 0) + 1
  seen.set(sale, number)
  return number === 1 ? sale : `${sale}.${number}`
}

const digest = (members: object): string => createHash('sha256').update(JSON.stringify(members)).digest('base64url')
