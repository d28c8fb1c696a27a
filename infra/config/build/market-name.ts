/**
 * Market names: parsing one, and composing it again.
 *
 * A name is `[★ ][StatTrak™ |Souvenir ]BASE[ (wear)]`, and a base is `group[ | rest]`. Invariant: writeName(readName(name)) ===
 * name, for any text. Nothing here knows which items exist.
 */

/** The exteriors, each with the float range `[from, to)` in which the game calls it so. */
export const WEARS: readonly { name: string; from: number; to: number }[] = [
  { name: 'Factory New', from: 0, to: 0.07 },
  { name: 'Minimal Wear', from: 0.07, to: 0.15 },
  { name: 'Field-Tested', from: 0.15, to: 0.38 },
  { name: 'Well-Worn', from: 0.38, to: 0.45 },
  { name: 'Battle-Scarred', from: 0.45, to: 1 },
]

export interface MarketName {
  isStar: boolean
  isStattrak: boolean
  isSouvenir: boolean
  /** The name without star, quality and wear. */
  base: string
  wear: string | null
}

const STAR = '★ '
const STATTRAK = 'StatTrak™ '
const SOUVENIR = 'Souvenir '
const WEAR_AT_END = new RegExp(` \\((${WEARS.map(wear => wear.name).join('|')})\\)$`)
/** A tool that moves counters between items carries the word in its own name. */
const STATTRAK_BY_NAME = /^StatTrak™ .*\bTool$/

export function readName(name: string): MarketName {
  let base = name
  const isStar = base.startsWith(STAR)
  if (isStar) base = base.slice(STAR.length)
  const isStattrak = base.startsWith(STATTRAK) && !STATTRAK_BY_NAME.test(base)
  if (isStattrak) base = base.slice(STATTRAK.length)
  const isSouvenir = !isStattrak && base.startsWith(SOUVENIR)
  if (isSouvenir) base = base.slice(SOUVENIR.length)
  const wear = WEAR_AT_END.exec(base)?.[1] ?? null
  if (wear !== null) base = base.slice(0, -(wear.length + 3))
  return { isStar, isStattrak, isSouvenir, base, wear }
}

export function writeName(parts: MarketName): string {
  const quality = parts.isStattrak ? STATTRAK : parts.isSouvenir ? SOUVENIR : ''
  return `${parts.isStar ? STAR : ''}${quality}${parts.base}${parts.wear === null ? '' : ` (${parts.wear})`}`
}

/** Splits a base at its first bar: `AK-47 | Redline` is group `AK-47`, rest `Redline`. */
export function splitBase(base: string): { group: string; rest: string | null } {
  const bar = base.indexOf(' | ')
  return bar < 0 ? { group: base, rest: null } : { group: base.slice(0, bar), rest: base.slice(bar + 3) }
}

const GRAPHIC_FINISH = /\((Holo|Foil|Gold|Glitter|Lenticular|Embroidered)(?:, [^)]*)?\)/

/** The finish in the name of a sticker, slab or patch, such as `Holo`. */
export function graphicFinish(base: string): string | null {
  return GRAPHIC_FINISH.exec(base)?.[1] ?? null
}

/** The colour that ends the name of a tinted graffiti. */
export function graffitiColour(base: string): string | null {
  return /\(([^()]+)\)$/.exec(base)?.[1] ?? null
}
