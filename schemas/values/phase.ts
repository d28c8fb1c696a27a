/**
 * The phases, in the order in which a finish lists them: the named variants of a phased finish such as Doppler. The item
 * of a finish as a whole, and every item without phases, has phase null.
 */
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

export type Phase = (typeof PHASES)[number]

const KNOWN: ReadonlySet<string> = new Set(PHASES)

/** Parses the exact text of a phase; undefined when it is none. */
export function parsePhase(text: string): Phase | undefined {
  return KNOWN.has(text) ? (text as Phase) : undefined
}
