/**
 * Names of items: which are the same, and which item a name means.
 *
 * Names come from marketplaces, files and clients, who pad, wrap and compose them in their own ways, and some names of the
 * game itself have two blanks in a row. Two texts are one name when their plain forms are equal; case counts. The exact
 * spelling is tried first, so catalog names that have one plain form stay apart.
 */
import type { CatalogItem, ResolveItem } from './catalog-item.ts'

/**
 * A map key for a name and phase, the identity of a catalog item outside the platform. All phases of a finish share the
 * name; the item without a phase is the finish as a whole.
 */
export const nameKey = (marketHashName: string, phase: string | null): string =>
  phase === null ? marketHashName : `${marketHashName}\u0000${phase}`

/** ASCII and the signs of most other names, with single blanks: plain already, at a tenth of the cost of making it so. */
const USUAL = /^[!-~★™]+(?: [!-~★™]+)*$/
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu
const BLANKS = /\p{White_Space}+/gu
/** No name has so many on one letter. Ordering them takes time quadratic in their number: a second for 32 kB of a file. */
const PILED_MARKS = /\p{M}{9}/u

/** A name in NFC, without characters that show nothing, each run of blanks as one space and none at its ends. */
export function plainName(name: string): string {
  if (USUAL.test(name)) return name
  const text = name.replaceAll(INVISIBLE, '').replaceAll(BLANKS, ' ').trim()
  return PILED_MARKS.test(text) ? text : text.normalize('NFC')
}

type NamedItem = Pick<CatalogItem, 'item_id' | 'market_hash_name' | 'phase'>

export interface ItemNames {
  readonly idOf: ResolveItem
  /** All items that share a name, the phaseless entry first. */
  idsOfName(marketHashName: string): readonly number[]
}

/** Indexes items that come by ascending id: of two with one name and phase the lower id has it. An exact name costs one lookup. */
export function openItemNames(items: readonly NamedItem[]): ItemNames {
  const byName = Map.groupBy(items, item => item.market_hash_name)
  /** By their plain forms, names that are not plain. */
  const uneven = new Map<string, readonly NamedItem[]>()
  for (const [name, named] of byName) {
    // The sort is stable, so among phases the lower id comes first.
    if (named.length > 1) named.sort((a, b) => Number(a.phase !== null) - Number(b.phase !== null))
    const plain = plainName(name)
    if (plain !== name && !uneven.has(plain)) uneven.set(plain, named)
  }
  const idIn = (named: readonly NamedItem[] | undefined, phase: string | null): number | undefined =>
    named?.find(item => item.phase === phase)?.item_id
  return {
    idOf(name, phase) {
      const id = idIn(byName.get(name), phase)
      if (id !== undefined) return id
      const plain = plainName(name)
      return idIn(byName.get(plain), phase) ?? idIn(uneven.get(plain), phase)
    },
    idsOfName(name) {
      const spelling = byName.has(name) ? name : plainName(name)
      const named = byName.get(spelling) ?? uneven.get(spelling) ?? []
      return named.map(({ item_id }) => item_id)
    },
  }
}
