/**
 * The simulated market's sales: at most one in each time slot of a provider.
 *
 * Pure. Invariant: a slot always holds the same sale, so windows that overlap repeat sales under the
 * same id and windows that touch leave none out; (base, provider, window, rates) alone decide.
 */
import { readName, WEARS } from '#infra/config/build/market-name.ts'
import type { SaleCharm, SaleSticker } from '#schemas/events/sale-observed.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { type Rate, toMinor } from '#schemas/values/money.ts'
import type { RawSale } from '../../source.ts'
import { mix, type SimulatedBase, unit } from './base.ts'
import { askMicro, isCovered, type SimulatedProvider } from './map.ts'

const WINDOW_MAX_MS = 30 * DAY_MS
const CANDIDATES = 8
const CHARM_SHARE = 0.15
const STICKER_SLOTS = 5
const STICKER_SHARE = 0.25
const WORN_SHARE = 0.3
const PAINT_SEEDS = 1_000
const CHARM_PATTERNS = 100_000

export function* salesBetween(
  base: SimulatedBase,
  provider: SimulatedProvider,
  window: { after: number; until: number },
  rate: Rate,
): Generator<RawSale> {
  const after = Math.max(window.after, window.until - WINDOW_MAX_MS)
  const last = Math.floor(window.until / provider.saleSlotMs)
  for (let slot = Math.floor(after / provider.saleSlotMs); slot <= last; slot++) {
    const hash = mix(mix(provider.hash, slot), Math.floor(slot / 2 ** 32))
    const soldAt = Math.floor((slot + unit(mix(hash, 1))) * provider.saleSlotMs)
    if (soldAt <= after || soldAt > window.until) continue
    const i = soldEntry(base, provider, hash)
    if (i === undefined) continue
    const micro = Math.floor(askMicro(base, i, provider, soldAt) * (0.92 + 0.08 * unit(mix(hash, 2))))
    yield {
      market_hash_name: base.names[i] as string,
      phase: base.phases[i],
      price: toMinor(micro, rate) || 1,
      sold_at: soldAt,
      sale_id: `${slot.toString(36)}-${(hash >>> 0).toString(36)}`,
      ...detailsOf(base, base.names[i] as string, provider.details, hash),
    }
  }
}

/** An entry that the provider lists at all: of two drawn, the one with more listings, since cheap items sell more often. */
function soldEntry(base: SimulatedBase, provider: SimulatedProvider, hash: number): number | undefined {
  const drawn = Array.from({ length: CANDIDATES }, (_, index) =>
    Math.floor(unit(mix(hash, 10 + index)) * base.names.length),
  )
  const [first, second] = drawn.filter(i => isCovered(base, i, provider))
  if (first === undefined || second === undefined) return first
  return (base.depths[second] as number) > (base.depths[first] as number) ? second : first
}

function detailsOf(
  base: SimulatedBase,
  name: string,
  details: SimulatedProvider['details'],
  hash: number,
): Partial<RawSale> {
  const { wear } = readName(name)
  const bounds = WEARS.find(one => one.name === wear)
  const isWeapon = bounds !== undefined && !name.includes('★')
  const id = (mix(hash, 30) >>> 0).toString(16).padStart(8, '0')
  const picture = `https://screenshots.example/${id}${(hash >>> 0).toString(16)}`
  return {
    float: bounds && details.has('float') ? within(bounds.from, bounds.to, unit(mix(hash, 31))) : null,
    paint_seed: bounds && details.has('paint_seed') ? Math.floor(unit(mix(hash, 32)) * PAINT_SEEDS) : null,
    stickers: isWeapon && details.has('stickers') ? stickersOf(base, hash) : null,
    charms: isWeapon && details.has('charms') ? charmsOf(base, hash) : null,
    inspect_in_game: bounds && details.has('inspect') ? `game://inspect/${id}${(hash >>> 0).toString(16)}` : null,
    screenshot_front: bounds && details.has('screenshots') ? `${picture}/front.png` : null,
    screenshot_back: bounds && details.has('screenshots') ? `${picture}/back.png` : null,
  }
}

const within = (least: number, most: number, share: number): number =>
  Math.floor((least + (most - least) * share) * 1e9) / 1e9

function stickersOf(base: SimulatedBase, hash: number): SaleSticker[] {
  const stickers: SaleSticker[] = []
  for (let slot = 0; slot < STICKER_SLOTS && base.stickers.length > 0; slot++) {
    const own = mix(hash, 40 + slot)
    if (unit(own) >= STICKER_SHARE) continue
    const wear = unit(mix(own, 1)) < WORN_SHARE ? within(0, 1, unit(mix(own, 2))) : 0
    stickers.push({ name: pick(base.stickers, mix(own, 3)), slot, wear })
  }
  return stickers
}

function charmsOf(base: SimulatedBase, hash: number): SaleCharm[] {
  if (base.charms.length === 0 || unit(mix(hash, 50)) >= CHARM_SHARE) return []
  const pattern = Math.floor(unit(mix(hash, 51)) * CHARM_PATTERNS)
  return [{ name: pick(base.charms, mix(hash, 52)), pattern_id: pattern }]
}

const pick = (names: readonly string[], hash: number): string => names[Math.floor(unit(hash) * names.length)] as string
