/**
 * A catalog item's identity outside the platform: its name and phase.
 *
 * Reads and writes nothing. All phases of a finish share the name; the entry without a phase is
 * the finish as a whole.
 */

/** One text for a name and phase, to key a map by. */
export const nameKey = (marketHashName: string, phase: string | null): string =>
  phase === null ? marketHashName : `${marketHashName}\u0000${phase}`
