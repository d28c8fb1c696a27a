/**
 * Names as history files write them: a phase at the end of the name, blanks by chance.
 *
 * Pure. `★ Bayonet | Doppler (Factory New) Phase2` is the finish `★ Bayonet | Doppler (Factory New)` in `Phase 2`. Invariant:
 * what is not a known phase stays part of the name, so that a name which the catalog lacks is told as it came.
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

/** Finds items by a name in which blanks may differ from the catalog's, which holds some names with two in a row. */
export function openNameIndex(items: Iterable<NamedItem>): (name: string, phase: string | null) => number | undefined {
  const exact = new Map<string, number>()
  const loose = new Map<string, number>()
  for (const { item_id, market_hash_name, phase } of items) {
    exact.set(nameKey(market_hash_name, phase), item_id)
    loose.set(nameKey(collapsed(market_hash_name), phase), item_id)
  }
  return (name, phase) => exact.get(nameKey(name, phase)) ?? loose.get(nameKey(collapsed(name), phase))
}

/** An index of a list that may be replaced by another: made anew when it is. */
export function followNameIndex(items: () => readonly NamedItem[]): ReturnType<typeof openNameIndex> {
  let indexed: readonly NamedItem[] | undefined
  let idOf: ReturnType<typeof openNameIndex> = () => undefined
  return (name, phase) => {
    const current = items()
    if (current !== indexed) {
      idOf = openNameIndex(current)
      indexed = current
    }
    return idOf(name, phase)
  }
}
