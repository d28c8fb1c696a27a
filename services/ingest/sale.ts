/**
 * Judges a sale and reads its details: what passes is published as SaleObserved.
 *
 * Pure but for the count of a refresh. Invariant: the same sale gives the same `sale_id` in every refresh in which it is seen: the
 * provider's own, or a digest of the sale's members where it has none. Sales whose members are all the same are
 * numbered in their refresh, so n of them are n however often a list shows them, and of several lists the one that shows the most
 * counts. The first has the digest alone.
 */
import { createHash } from 'node:crypto'
import type { SaleCharm, SaleObserved, SaleSticker } from '#schemas/events/sale-observed.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import type { RawSale } from './connector.ts'
import { type EntryFault, isAbsent, isText, isWebAddress, offerFault } from './entry.ts'

/** What a sale record gets from its refresh. */
interface SaleContext {
  provider: string
  currency: string
  usdRate: string
  observedAt: number
  priceMax: number
}

/** A judged sale: the record to publish, or why there is none. */
type JudgedSale = { sale: SaleObserved } | { fault: EntryFault }

const ID_MAX_LENGTH = 128
const TEXT_MAX_LENGTH = 2_048
const LIST_MAX_LENGTH = 16
const SLOT_MAX = 4
const INT_MAX = 2 ** 31 - 1

/** How often each digest was seen in a refresh so far. */
export type SeenSales = Map<string, number>

/** Judges a sale of a refresh and, where it has no id, counts it. */
export function judgeSale(raw: RawSale, context: SaleContext, seen: SeenSales): JudgedSale {
  const fault = offerFault(raw, context.priceMax) ?? saleFault(raw)
  if (fault) return { fault }
  const sale = {
    provider: context.provider,
    market_hash_name: raw.market_hash_name as string,
    phase: isAbsent(raw.phase) ? null : (raw.phase as string),
    price: raw.price as number,
    currency: context.currency,
    sold_at: instantOf(raw.sold_at) as number,
    float: (raw.float ?? null) as number | null,
    paint_seed: (raw.paint_seed ?? null) as number | null,
    stickers: (raw.stickers ?? null) as SaleSticker[] | null,
    charms: (raw.charms ?? null) as SaleCharm[] | null,
    inspect_in_game: (raw.inspect_in_game ?? null) as string | null,
    screenshot_front: (raw.screenshot_front ?? null) as string | null,
    screenshot_back: (raw.screenshot_back ?? null) as string | null,
  }
  const saleId = isAbsent(raw.sale_id) ? numbered(digest(sale), seen) : String(raw.sale_id)
  return { sale: { ...sale, sale_id: saleId, usd_rate: context.usdRate, observed_at: context.observedAt } }
}

function saleFault(raw: RawSale): EntryFault | undefined {
  if (isAbsent(raw.sold_at)) return 'sold_at_missing'
  if (instantOf(raw.sold_at) === undefined) return 'sold_at_invalid'
  if (!isAbsent(raw.sale_id) && !isIdentifier(raw.sale_id)) return 'sale_id_invalid'
  return areDetailsValid(raw) ? undefined : 'details_invalid'
}

const isIdentifier = (value: unknown): boolean =>
  typeof value === 'number' ? Number.isSafeInteger(value) : isText(value, ID_MAX_LENGTH)

function areDetailsValid(raw: RawSale): boolean {
  return (
    orAbsent(raw.float, value => isNumberIn(value, 0, 1)) &&
    orAbsent(raw.paint_seed, value => isIntegerIn(value, 0, INT_MAX)) &&
    orAbsent(raw.stickers, value => isListOf(value, isSticker)) &&
    orAbsent(raw.charms, value => isListOf(value, isCharm)) &&
    orAbsent(raw.inspect_in_game, value => isText(value, TEXT_MAX_LENGTH)) &&
    orAbsent(raw.screenshot_front, isWebAddress) &&
    orAbsent(raw.screenshot_back, isWebAddress)
  )
}

const orAbsent = (value: unknown, isValid: (value: unknown) => boolean): boolean =>
  value === undefined || value === null || isValid(value)

const isListOf = (value: unknown, isValid: (member: unknown) => boolean): boolean =>
  Array.isArray(value) && value.length <= LIST_MAX_LENGTH && value.every(isValid)

function isSticker(value: unknown): boolean {
  const { name, slot, wear } = (value ?? {}) as Partial<SaleSticker>
  return isText(name, TEXT_MAX_LENGTH) && isIntegerIn(slot, 0, SLOT_MAX) && isNumberIn(wear, 0, 1)
}

function isCharm(value: unknown): boolean {
  const { name, pattern_id: pattern } = (value ?? {}) as Partial<SaleCharm>
  return isText(name, TEXT_MAX_LENGTH) && isIntegerIn(pattern, 0, INT_MAX)
}

const isNumberIn = (value: unknown, least: number, most: number): boolean =>
  typeof value === 'number' && value >= least && value <= most

const isIntegerIn = (value: unknown, least: number, most: number): boolean =>
  Number.isInteger(value) && isNumberIn(value, least, most)

function instantOf(value: unknown): number | undefined {
  if (typeof value === 'string') return parseInstant(value)
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : undefined
}

function numbered(sale: string, seen: SeenSales): string {
  const number = (seen.get(sale) ?? 0) + 1
  seen.set(sale, number)
  return number === 1 ? sale : `${sale}.${number}`
}

const digest = (members: object): string => createHash('sha256').update(JSON.stringify(members)).digest('base64url')
