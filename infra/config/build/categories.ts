/**
 * The categories of an item: its class, the family within the class, and the kind of a weapon. An entry of the source is classified
 * by its kind; a name alone by its words, with null where they do not decide.
 */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { splitBase } from './market-name.ts'
import type { SourceItem } from './source.ts'

export type Categories = Pick<CatalogItem, 'item_type' | 'item_subtype' | 'weapon_type'>

/** The family of each kind of weapon. */
const WEAPON_FAMILIES: Readonly<Record<string, string>> = {
  'Assault Rifle': 'Rifles',
  'Sniper Rifle': 'Rifles',
  Pistol: 'Pistols',
  SMG: 'SMGs',
  Shotgun: 'Heavy',
  'Machine Gun': 'Heavy',
  Knife: 'Knives',
  Gloves: 'Gloves',
  Taser: 'Equipment',
}

/** A source entry for a family of charms, one for each highlight. */
export const HIGHLIGHT_FAMILY = /^Charm \| .+ Highlight$/

const of = (type: string | null, subtype: string | null = null): Categories => ({
  item_type: type,
  item_subtype: subtype,
  weapon_type: null,
})

const weapon = (kind: string | null): Categories => ({
  item_type: 'Weapon',
  item_subtype: WEAPON_FAMILIES[kind ?? ''] ?? null,
  weapon_type: kind,
})

/** The categories of a source entry; `base` is its market name without star, quality and wear. */
export function categoriesOf(entry: SourceItem, base: string): Categories {
  switch (entry.kind) {
    case 'weapon':
      return weapon(entry.weaponKind)
    case 'melee':
      return weapon('Knife')
    case 'glove':
      return weapon('Gloves')
    case 'agent':
      return of('Agent', entry.side)
    case 'sticker':
      return of('Sticker', graphicFamily(entry))
    case 'keychain':
      if (entry.stickerId !== null) return of('Sticker Slab', graphicFamily(entry))
      return of('Charm', HIGHLIGHT_FAMILY.test(base) ? 'Highlight Charm' : 'Charm')
    case 'patch':
      return of('Patch', graphicFamily(entry))
    case 'graffiti':
      return of('Graffiti', graphicFamily(entry))
    case 'musickit':
      return of('Music Kit')
    case 'collectible':
      return of('Collectible', 'Pin')
    case 'key':
      return of('Key', keyFamily(base))
    case 'case':
      return of('Crate', crateFamily(base))
    case 'tool':
      return of('Tool', toolFamily(base))
    default:
      return of(null)
  }
}

/** Marks of an organizer whose name the text about its tournament does not hold. */
const ORGANIZER_MARK = /^(Gold )?ESL (Wolf|Skull)$/

/** Whom the picture shows: a player's hand, a team, the tournament itself, or none of them. */
function graphicFamily({ name, description, tournament }: SourceItem): string {
  if (/autographed by/.test(description)) return 'Autograph'
  if (tournament === null) return 'Standard'
  const [, subject = '', occasion] = name.split(' | ')
  const shown = subject.replace(/ \([^)]*\)$/, '')
  const isEvent = occasion === undefined || tournament.includes(shown) || ORGANIZER_MARK.test(shown)
  return isEvent ? 'Event' : 'Team'
}

/** The occasion that ends a name, such as `| Cologne 2015`: the name does not give whose picture it is. */
const OCCASION = / \| [^|]*\b20\d\d$/

const graphicFamilyFromWords = (base: string): string | null => (OCCASION.test(base) ? null : 'Standard')

const CRATE_FAMILIES: readonly [RegExp, string][] = [
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

/** The many capsules without one of these words hold stickers. */
export function crateFamily(base: string): string {
  return CRATE_FAMILIES.find(([form]) => form.test(base))?.[1] ?? 'Sticker Capsule'
}

const GIFT = /^(Gift Package|Pallet of Presents|.* Parcel)$/

const TOOL_FAMILIES: readonly [RegExp, string][] = [
  [/^Charm Detachment/, 'Charm Detachment'],
  [/Name Tag$/, 'Name Tag'],
  [/^Storage Unit$/, 'Storage Unit'],
  [/Swap Tool$/, 'Swap Tool'],
  [GIFT, 'Gift'],
]

const toolFamily = (base: string): string | null => TOOL_FAMILIES.find(([form]) => form.test(base))?.[1] ?? null

const keyFamily = (base: string): string => (/(Capsule|Capsule \d+) Key$/.test(base) ? 'Capsule Key' : 'Case Key')

const CRATE = /\b(Case|Case \d+|Capsule|Package|Box \d*|Box|Pack|Terminal|Collection|\((Holo-)?Foil\))$|^#CSGO_crate_/

/** The categories that the words of a base give; null where they give none. */
export function categoriesFromWords(base: string, isStar: boolean): Categories {
  const { group } = splitBase(base)
  if (isStar) return weapon(/\b(Gloves|Wraps)\b/.test(group) ? 'Gloves' : 'Knife')
  if (group === 'Sealed Graffiti') return of('Graffiti', graphicFamilyFromWords(base))
  if (['Sticker', 'Sticker Slab', 'Patch'].includes(group)) return of(group, graphicFamilyFromWords(base))
  if (group === 'Charm') return of('Charm', / Highlight \| /.test(base) ? 'Highlight Charm' : 'Charm')
  if (/^Music Kit\b/.test(group)) return of('Music Kit')
  if (/\bViewer Pass\b/.test(base)) return of('Pass', 'Viewer Pass')
  if (/\bPass$/.test(base)) return of('Pass', 'Operation Pass')
  if (/ Key$/.test(base)) return of('Key', keyFamily(base))
  if (/ Pin$/.test(base)) return of('Collectible', 'Pin')
  if (/ Tool$/.test(base) || toolFamily(base) !== null) return of('Tool', toolFamily(base))
  if (CRATE.test(base)) return of('Crate', crateFamily(base))
  return of(null)
}
