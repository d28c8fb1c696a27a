/**
 * From source entries to catalog items: every wear, quality and phase that really exists.
 *
 * A finish is all entries of one kind and name (its phases). Which wears exist follows from its float range; StatTrak and
 * Souvenir from what containers give, and from names seen on a market, since the source does not list every container. Invariant:
 * at most one item per (name, phase), in the source's order, so that numbering is repeatable.
 */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { nameKey } from '#schemas/values/item-name.ts'
import { PHASES, type Phase } from '#schemas/values/phase.ts'
import { categoriesOf, HIGHLIGHT_FAMILY } from '../build/categories.ts'
import { graffitiColour, graphicFinish, type MarketName, readName, splitBase, WEARS, writeName } from './market-name.ts'
import type { SourceItem, Yield } from './source.ts'
import { paintTechnique, rarityName } from './vocabulary.ts'

/** A catalog item that has no number yet. */
export type Draft = Omit<CatalogItem, 'item_id'>

/** Items of the source, and its entries that are a family of names only. */
export interface Expansion {
  drafts: Draft[]
  /** By base: an item named `BASE | anything` takes its fields from here. */
  families: Map<string, Draft>
}

interface Crate {
  name: string
  image: string
  yields: readonly Yield[]
}

interface Finish {
  kind: string
  base: string
  members: SourceItem[]
}

const PAINTED = new Set(['weapon', 'melee', 'glove'])
const NEVER_TRADED = new Set(['stub', 'utility'])
const KINDS_IN_NAME = /^(Agent|Collectible|Container|Key|Tool) \| /

/** Expands the whole source; `seen` are market names that prove qualities that the source does not give. */
export function expandSource(source: readonly SourceItem[], seen: Iterable<string>): Expansion {
  const finishes = groupFinishes(withSlabs(source))
  const crates = cratesByFinish(finishes)
  const proven = provenQualities(seen)
  const drafts = new Map<string, Draft>()
  const families = new Map<string, Draft>()
  for (const finish of finishes.values()) {
    const found = crates.get(finish) ?? []
    const [first] = entriesOf(finish) as [SourceItem]
    if (HIGHLIGHT_FAMILY.test(finish.base)) families.set(finish.base, draftOf(first, finish.base, 'normal', null, []))
    else for (const draft of finishDrafts(finish, found, proven)) keepFirst(drafts, draft)
  }
  return { drafts: [...drafts.values()], families }
}

/** The name under which the market knows an entry, without star, quality and wear. */
function marketBase(item: SourceItem): string {
  const name = item.name.replace(KINDS_IN_NAME, '').replaceAll('/', '-')
  return item.kind === 'graffiti' ? `Sealed ${name}` : name
}

function keepFirst(drafts: Map<string, Draft>, draft: Draft): void {
  const key = nameKey(draft.market_hash_name, draft.phase)
  if (!drafts.has(key)) drafts.set(key, draft)
}

/**
 * Gives every sticker a slab, as the source lags behind with those of the newest stickers, and says of each slab
 * what the source says of the sticker in it.
 */
function withSlabs(source: readonly SourceItem[]): SourceItem[] {
  const stickers = new Map(source.filter(item => item.kind === 'sticker').map(item => [item.id, item]))
  const listed = source.map(item => {
    const sticker = stickers.get(item.stickerId ?? 0)
    return sticker ? { ...item, ...aboutSticker(sticker) } : item
  })
  const slabbed = new Set(source.map(item => item.stickerId))
  const model = source.find(item => item.stickerId !== null)
  if (!model) return listed
  const missing = [...stickers.values()].filter(item => !slabbed.has(item.id))
  const made = missing.map(sticker => ({
    ...model,
    ...aboutSticker(sticker),
    // No entry of the source has a negative id, so containers that hold the sticker do not hold the slab.
    id: -sticker.id,
    name: sticker.name.replace(/^Sticker/, 'Sticker Slab'),
    rarityColor: sticker.rarityColor,
    image: null,
    stickerId: sticker.id,
  }))
  return [...listed, ...made]
}

const aboutSticker = ({ description, tournament }: SourceItem) => ({ description, tournament })

function isTraded(item: SourceItem): boolean {
  if (item.isFree || NEVER_TRADED.has(item.kind)) return false
  if (item.isBase && item.kind !== 'melee') return false
  // Medals, coins and displayed pins are bound to their account; a sealed pin is a commodity.
  return item.kind !== 'collectible' || /^Commodity Pin/.test(item.note ?? '')
}

function groupFinishes(source: readonly SourceItem[]): Map<string, Finish> {
  const finishes = new Map<string, Finish>()
  for (const item of source.filter(isTraded)) {
    const base = marketBase(item)
    const key = `${item.kind}:${base}`
    const finish = finishes.get(key)
    if (finish) finish.members.push(item)
    else finishes.set(key, { kind: item.kind, base, members: [item] })
  }
  return finishes
}

/** A container names one phase of a finish at most, so its members share what any of them is in. */
function cratesByFinish(finishes: Map<string, Finish>): Map<Finish, Crate[]> {
  const byMember = new Map<number, Finish>()
  for (const finish of finishes.values()) for (const member of finish.members) byMember.set(member.id, finish)
  const crates = new Map<Finish, Crate[]>()
  for (const container of finishes.values()) {
    const [first] = container.members
    if (container.kind !== 'case' || first === undefined) continue
    const crate = { name: container.base, image: first.image ?? '', yields: first.yields }
    const inside = new Set(container.members.flatMap(member => member.contents).map(id => byMember.get(id)))
    for (const finish of inside) if (finish) crates.set(finish, [...(crates.get(finish) ?? []), crate])
  }
  return crates
}

/** Seen `QUALITY BASE` pairs, as `yield:base`. */
function provenQualities(seen: Iterable<string>): Set<string> {
  const proven = new Set<string>()
  for (const name of seen) {
    const { isStattrak, isSouvenir, base } = readName(name)
    proven.add(`${isStattrak ? 'stattrak' : isSouvenir ? 'souvenir' : 'normal'}:${base}`)
  }
  return proven
}

function qualitiesOf(finish: Finish, crates: readonly Crate[], proven: Set<string>): Yield[] {
  const gives = (quality: Yield) => crates.some(crate => crate.yields.includes(quality))
  const isProven = (quality: Yield) => proven.has(`${quality}:${finish.base}`)
  if (finish.kind === 'melee') return ['normal', 'stattrak']
  if (finish.kind === 'weapon') {
    const rest = (['stattrak', 'souvenir'] as const).filter(quality => gives(quality) || isProven(quality))
    return ['normal', ...rest]
  }
  if (finish.kind !== 'musickit') return ['normal']
  const isStattrakOnly = gives('stattrak') && !gives('normal')
  const normal: Yield[] = isStattrakOnly && !isProven('normal') ? [] : ['normal']
  return gives('stattrak') || isProven('stattrak') ? [...normal, 'stattrak'] : normal
}

function* finishDrafts(finish: Finish, crates: readonly Crate[], proven: Set<string>): Generator<Draft> {
  for (const entry of entriesOf(finish)) {
    for (const quality of qualitiesOf(finish, crates, proven)) {
      const found = crates.filter(crate => crate.yields.includes(quality))
      for (const wear of wearsOf(entry)) yield draftOf(entry, finish.base, quality, wear, found)
    }
  }
}

/** The finish as a whole first, then its phases; a finish without phases is its first entry. */
function entriesOf(finish: Finish): SourceItem[] {
  const phased = finish.members
    .filter(member => member.phase !== null)
    .sort((a, b) => PHASES.indexOf(a.phase as Phase) - PHASES.indexOf(b.phase as Phase))
  const [first] = phased.length > 0 ? phased : finish.members
  if (first === undefined) return []
  if (phased.length === 0) return [first]
  const lowest = Math.min(...phased.map(member => member.minFloat ?? 0))
  const highest = Math.max(...phased.map(member => member.maxFloat ?? 1))
  return [{ ...first, phase: null, paintIndex: null, minFloat: lowest, maxFloat: highest }, ...phased]
}

function wearsOf(entry: SourceItem): (string | null)[] {
  const { minFloat, maxFloat } = entry
  if (minFloat === null || maxFloat === null) return [null]
  return WEARS.filter(wear => Math.max(wear.from, minFloat) < Math.min(wear.to, maxFloat)).map(wear => wear.name)
}

function draftOf(
  entry: SourceItem,
  base: string,
  quality: Yield,
  wear: string | null,
  crates: readonly Crate[],
): Draft {
  // A container's or tool's quality is part of its own base, so its name is read like any other.
  const isPainted = PAINTED.has(entry.kind)
  const parts: MarketName =
    isPainted || entry.kind === 'musickit'
      ? {
          isStar: isPainted && entry.kind !== 'weapon',
          isStattrak: quality === 'stattrak',
          isSouvenir: quality === 'souvenir',
          base,
          wear,
        }
      : readName(base)
  const { group, rest } = splitBase(parts.base)
  return {
    market_hash_name: writeName(parts),
    phase: entry.phase,
    ...categoriesOf(entry, parts.base),
    base_name: group,
    skin_name: rest,
    wear_name: wear,
    def_index: defIndex(entry),
    paint_index: entry.paintIndex,
    collection: entry.collection,
    collection_image: entry.collectionImage,
    crates: crates.map(crate => crate.name),
    crates_images: crates.map(crate => crate.image),
    release_date: null,
    rarity_name: entry.kind === 'glove' ? 'Extraordinary' : rarityName(entry.kind, entry.rarityColor),
    rarity_color: entry.rarityColor?.slice(1) ?? null,
    style_name: styleOf(entry, parts.base),
    is_stattrak: parts.isStattrak,
    is_souvenir: parts.isSouvenir,
    min_float: entry.minFloat,
    max_float: entry.maxFloat,
    image_url: (wear === null ? undefined : entry.wearImages[wear]) ?? entry.image,
  }
}

/** The source numbers untinted graffiti only; tinted ones are the same game item in a colour. */
const GRAFFITI_DEF_INDEX = 1348

function defIndex(entry: SourceItem): string | null {
  const number = entry.defIndex ?? (entry.kind === 'graffiti' ? GRAFFITI_DEF_INDEX : null)
  return number === null ? null : String(number)
}

function styleOf(entry: SourceItem, base: string): string | null {
  if (entry.kind === 'weapon' || entry.kind === 'melee') {
    return entry.paintIndex === 0 ? null : paintTechnique(entry.description)
  }
  if (entry.kind === 'graffiti') return graffitiColour(base)
  return ['sticker', 'keychain', 'patch'].includes(entry.kind) ? graphicFinish(base) : null
}
