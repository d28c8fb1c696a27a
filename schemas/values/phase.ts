/**
 * Phases: the named variants of a phased finish such as Doppler.
 *
 * Reads and writes nothing. Invariant: exactly the eight texts of the specification; the entry of a
 * finish as a whole, and every item without phases, has phase null.
 */

/** The eight phases, in the order in which a finish lists them. */
export const PHASES = [
  'Phase 1',
  'Phase 2',
  'Phase 3',
  'Phase 4',
  'Ruby',
  'Sapphire',
  'Black Pearl',
  'Emerald',
] as const

/** One variant of a phased finish. */
export type Phase = (typeof PHASES)[number]

const KNOWN: ReadonlySet<string> = new Set(PHASES)

/** Parses the exact text of a phase; undefined when it is none. */
export function parsePhase(text: string): Phase | undefined {
  return KNOWN.has(text) ? (text as Phase) : undefined
}
