/**
 * Catalog items for names that a market shows and the source lacks: what the name gives, what the source knows of its family
 * (`Charm | Austin 2025 Highlight`) or its weapon, and null for the rest. Never throws: any text is a name.
 */
import { type Categories, categoriesFromWords } from '../build/categories.ts'
import type { Draft, Expansion } from '../build/expand.ts'
import { graffitiColour, graphicFinish, readName, splitBase } from '../build/market-name.ts'

/** Prepares drafting from names, with what an expansion of the source knows of weapons and families. */
export function draftFromNames(known: Expansion): (name: string) => Draft {
  const gear = new Map<string, Draft>()
  for (const draft of known.drafts) {
    const { weapon_type: kind, base_name: model } = draft
    if (kind !== null && model !== null && !gear.has(model)) gear.set(model, draft)
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

function classify(base: string, isStar: boolean, gear: Draft | undefined): Categories & Pick<Draft, 'style_name'> {
  if (gear) {
    const { item_type, item_subtype, weapon_type } = gear
    return { item_type, item_subtype, weapon_type, style_name: null }
  }
  const categories = categoriesFromWords(base, isStar)
  const { item_type: type } = categories
  const style = type === 'Graffiti' ? graffitiColour(base) : type === 'Weapon' ? null : graphicFinish(base)
  return { ...categories, style_name: style }
}
