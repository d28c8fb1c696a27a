/**
 * Parses names as history files write them: with the phase at the end and irregular blanks.
 *
 * `★ Bayonet | Doppler (Factory New) Phase2` is the finish `★ Bayonet | Doppler (Factory New)` in `Phase 2`. A suffix
 * that is no known phase stays part of the name, so that a name which the catalog lacks is reported unchanged.
 */
import { plainName } from './item-name.ts'
import { PHASES, type Phase } from './phase.ts'

const SPELLINGS = new Map(PHASES.map(phase => [phase.replaceAll(' ', '').toLowerCase(), phase]))
const SUFFIX = /^(.+\))\s+(?:-\s*)?([A-Za-z ]+?\s*\d?)$/

/** Parses a text into a name, in its plain form, and phase. */
export function readMarketText(text: string): { name: string; phase: Phase | null } {
  const name = plainName(text)
  const match = SUFFIX.exec(name)
  const phase = SPELLINGS.get((match?.[2] ?? '').replaceAll(' ', '').toLowerCase())
  return match?.[1] !== undefined && phase !== undefined ? { name: match[1], phase } : { name, phase: null }
}
