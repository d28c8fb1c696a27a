/**
 * Catalog items for names that a market shows and the source lacks.
 *
 * Reads and writes nothing. The fields are what the name itself tells; where the source knows the
 * name's family (`Charm | Austin 2025 Highlight`) or its weapon, those fields come from there. The
 * rest is null. Never throws: any text is a name.
 */
import type { Draft, Expansion } from './expand.ts'
import { graffitiColour, graphicFinish, readName, splitBase, typeFromWords } from './market-name.ts'

/** Drafts an item from its name alone. */
export type DraftFromName = (name: string) => Draft

/** Prepares drafting from names, with what an expansion of the source knows of weapons and families. */
export function draftFromNames(known: Expansion): DraftFromName {
  const gear = new Map<string, Draft>()
  for (const draft of known.drafts) {
    if (draft.weapon_type !== null && !gear.has(draft.weapon_type)) gear.set(draft.weapon_type, draft)
  }
  return name => {
    const parts = readName(name)
    const { group, rest } = splitBase(parts.base)
    const family = familyOf(known, parts.base)
    return {
      ...BLANK,
      ...(family ? fieldsOfFamily(family) : {}),
      ...classify(parts.base, parts.isStar, gear.get(group)),
      market_hash_name: name,
      base_name: group,
      skin_name: rest,
      wear_name: parts.wear,
      is_stattrak: parts.isStattrak || /_stattrak_/.test(name),
      is_souvenir: parts.isSouvenir,
    }
  }
}

const BLANK = {
  phase: null,
  item_type: null,
  item_subtype: null,
  weapon_type: null,
  def_index: null,
  paint_index: null,
  collection: null,
  collection_image: null,
  crates: [],
  crates_images: [],
  release_date: null,
  rarity_name: null,
  rarity_color: null,
  style_name: null,
  min_float: null,
  max_float: null,
  image_url: null,
} as const satisfies Partial<Draft>

function familyOf(known: Expansion, base: string): Draft | undefined {
  for (let bar = base.lastIndexOf(' | '); bar > 0; bar = base.lastIndexOf(' | ', bar - 1)) {
    const family = known.families.get(base.slice(0, bar))
    if (family) return family
  }
  return undefined
}

function fieldsOfFamily(family: Draft): Partial<Draft> {
  const { def_index, rarity_name, rarity_color, image_url } = family
  return { def_index, rarity_name, rarity_color, image_url }
}

function classify(
  base: string,
  isStar: boolean,
  gear: Draft | undefined,
): Pick<Draft, 'item_type' | 'item_subtype' | 'weapon_type' | 'style_name'> {
  if (gear) {
    const { item_type, item_subtype, weapon_type } = gear
    return { item_type, item_subtype, weapon_type, style_name: null }
  }
  const { type, subtype } = typeFromWords(base)
  if (type === null && isStar) {
    const isGloves = /\b(Gloves|Wraps)\b/.test(base)
    return { item_type: isGloves ? 'Gloves' : 'Knife', item_subtype: null, weapon_type: null, style_name: null }
  }
  const style = type === 'Graffiti' ? graffitiColour(base) : graphicFinish(base)
  return { item_type: type, item_subtype: subtype, weapon_type: null, style_name: style }
}
