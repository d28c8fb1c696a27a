/**
 * Parses names as history files write them: with the phase at the end and irregular blanks.
 *
 * `★ Bayonet | Doppler (Factory New) Phase2` is the finish `★ Bayonet | Doppler (Factory New)` in `Phase 2`. A suffix
 * that is no known phase stays part of the name, so that a name which the catalog lacks is reported unchanged.
 */
import { nameKey } from './item-name.ts'
import { PHASES, type Phase } from './phase.ts'

const SPELLINGS = new Map(PHASES.map(phase => [phase.replaceAll(' ', '').toLowerCase(), phase]))
const SUFFIX = /^(.+\))\s+(?:-\s*)?([A-Za-z ]+?\s*\d?)$/

const collapsed = (text: string): string => text.trim().replaceAll(/\s+/g, ' ')

/** Parses a text into a name and phase. */
export function readMarketText(text: string): { name: string; phase: Phase | null } {
  const name = collapsed(text)
  const match = SUFFIX.exec(name)
  const phase = SPELLINGS.get((match?.[2] ?? '').replaceAll(' ', '').toLowerCase())
  return match?.[1] !== undefined && phase !== undefined ? { name: match[1], phase } : { name, phase: null }
}

/** An item of an index. */
interface NamedItem {
  item_id: number
  market_hash_name: string
  phase: Phase | null
}

/** Finds the item of a name and phase. */
type IdOf = (name: string, phase: string | null) => number | undefined

/** Finds items by a name in which blanks may differ from the catalog's, which holds some names with two in a row. */
export function openNameIndex(items: readonly NamedItem[]): IdOf {
  const exact = new Map(items.map(item => [nameKey(item.market_hash_name, item.phase), item.item_id]))
  return looseNames(
    (name, phase) => exact.get(nameKey(name, phase)),
    () => items,
  )
}

/** The same over a lookup of exact names; `items` may return another list later, and is read only for a name that the lookup lacks. */
export function looseNames(exact: IdOf, items: () => readonly NamedItem[]): IdOf {
  let indexed: readonly NamedItem[] | undefined
  let uneven = new Map<string, number>()
  const unevenId: IdOf = (name, phase) => {
    const current = items()
    if (current !== indexed) {
      uneven = indexUneven(current)
      indexed = current
    }
    return uneven.get(nameKey(name, phase))
  }
  return (name, phase) => {
    const found = exact(name, phase)
    if (found !== undefined) return found
    const even = collapsed(name)
    return exact(even, phase) ?? unevenId(even, phase)
  }
}

/** Items whose names have redundant blanks, by the name without them. */
function indexUneven(items: readonly NamedItem[]): Map<string, number> {
  const index = new Map<string, number>()
  for (const { item_id, market_hash_name, phase } of items) {
    const even = collapsed(market_hash_name)
    if (even !== market_hash_name) index.set(nameKey(even, phase), item_id)
  }
  return index
}
