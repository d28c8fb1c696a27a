/**
 * Names as history files write them: a phase at the end of the name, blanks by chance.
 *
 * `★ Bayonet | Doppler (Factory New) Phase2` is the finish `★ Bayonet | Doppler (Factory New)` in `Phase 2`. Invariant:
 * what is not a known phase stays part of the name, so that a name which the catalog lacks is reported as it came.
 */
import { nameKey } from './item-name.ts'
import { PHASES, type Phase } from './phase.ts'

const SPELLINGS = new Map(PHASES.map(phase => [phase.replaceAll(' ', '').toLowerCase(), phase]))
const SUFFIX = /^(.+\))\s+(?:-\s*)?([A-Za-z ]+?\s*\d?)$/

const collapsed = (text: string): string => text.trim().replaceAll(/\s+/g, ' ')

/** The name and phase that a text means. */
export function readMarketText(text: string): { name: string; phase: Phase | null } {
  const name = collapsed(text)
  const match = SUFFIX.exec(name)
  const phase = SPELLINGS.get((match?.[2] ?? '').replaceAll(' ', '').toLowerCase())
  return match?.[1] !== undefined && phase !== undefined ? { name: match[1], phase } : { name, phase: null }
}

/** What an index is made of. */
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

/** The same over what finds exact names; the list may be replaced by another, and is read only for a name not found. */
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

/** Items whose own names hold more blanks than they need, by the names without. */
function indexUneven(items: readonly NamedItem[]): Map<string, number> {
  const index = new Map<string, number>()
  for (const { item_id, market_hash_name, phase } of items) {
    const even = collapsed(market_hash_name)
    if (even !== market_hash_name) index.set(nameKey(even, phase), item_id)
  }
  return index
}
