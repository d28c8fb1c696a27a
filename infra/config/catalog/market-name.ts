/**
 * Market names: what a name tells by itself, and the way back.
 *
 * Reads and writes nothing. A name is `[★ ][StatTrak™ |Souvenir ]BASE[ (wear)]`, and a base is
 * `group[ | rest]`. Invariant: writeName(readName(name)) === name, for any text. Nothing here
 * knows which items exist.
 */

/** One exterior and the float range `[from, to)` in which the game calls it so. */
export interface Wear {
  readonly name: string
  readonly from: number
  readonly to: number
}

/** The five exteriors, best first. */
export const WEARS: readonly Wear[] = [
  { name: 'Factory New', from: 0, to: 0.07 },
  { name: 'Minimal Wear', from: 0.07, to: 0.15 },
  { name: 'Field-Tested', from: 0.15, to: 0.38 },
  { name: 'Well-Worn', from: 0.38, to: 0.45 },
  { name: 'Battle-Scarred', from: 0.45, to: 1 },
]

/** The parts of a market name. */
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

/** Splits a market name into its parts. */
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

/** Joins the parts of a market name. */
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

/** The finish that the name of a sticker, slab or patch tells, such as `Holo`. */
export function graphicFinish(base: string): string | null {
  return GRAPHIC_FINISH.exec(base)?.[1] ?? null
}

/** The colour that ends the name of a tinted graffiti. */
export function graffitiColour(base: string): string | null {
  return /\(([^()]+)\)$/.exec(base)?.[1] ?? null
}

const CONTAINER_SUBTYPES: readonly [RegExp, string][] = [
  [/souvenir .*package$/i, 'Souvenir Package'],
  [/music ?kit/i, 'Music Kit Box'],
  [/^Radicals Box$/, 'Music Kit Box'],
  [/autograph capsule/i, 'Autograph Capsule'],
  [/pins capsule/i, 'Pins Capsule'],
  [/patch (pack|collection)/i, 'Patch Pack'],
  [/graffiti/i, 'Graffiti Box'],
  [/terminal$/i, 'Terminal'],
  [/collection package$/i, 'Collection Package'],
  [/\bcase( \d+)?$/i, 'Weapon Case'],
  [/package$/i, 'Weapon Package'],
]

/** What kind of container a base names; the many capsules without a telling word hold stickers. */
export function containerSubtype(base: string): string {
  return CONTAINER_SUBTYPES.find(([form]) => form.test(base))?.[1] ?? 'Sticker Capsule'
}

const CONTAINER =
  /\b(Case|Case \d+|Capsule|Package|Box \d*|Box|Pack|Terminal|Collection|\((Holo-)?Foil\))$|^#CSGO_crate_/

/** The item type and subtype that the words of a base tell; null where they tell nothing. */
export function typeFromWords(base: string): { type: string | null; subtype: string | null } {
  const { group } = splitBase(base)
  if (group === 'Sticker') return { type: 'Sticker', subtype: null }
  if (group === 'Patch') return { type: 'Patch', subtype: null }
  if (group === 'Sealed Graffiti') return { type: 'Graffiti', subtype: null }
  if (group === 'Charm') return { type: 'Charm', subtype: / Highlight \| /.test(base) ? 'Highlight Charm' : 'Charm' }
  if (group === 'Sticker Slab') return { type: 'Charm', subtype: 'Sticker Slab' }
  if (/^Music Kit\b/.test(group)) return { type: 'Music Kit', subtype: null }
  if (/\bViewer Pass\b/.test(base)) return { type: 'Pass', subtype: 'Viewer Pass' }
  if (/\bPass$/.test(base)) return { type: 'Pass', subtype: 'Operation Pass' }
  if (/ Key$/.test(base)) return { type: 'Key', subtype: keySubtype(base) }
  if (/ Pin$/.test(base)) return { type: 'Collectible', subtype: 'Pin' }
  if (/^(Gift Package|Pallet of Presents|.* Parcel)$/.test(base)) return { type: 'Gift', subtype: null }
  if (/ Tool$/.test(base)) return { type: 'Tool', subtype: null }
  if (CONTAINER.test(base)) return { type: 'Container', subtype: containerSubtype(base) }
  return { type: null, subtype: null }
}

/** What a key opens. */
export function keySubtype(base: string): string {
  return /(Capsule|Capsule \d+) Key$/.test(base) ? 'Capsule Key' : 'Case Key'
}
