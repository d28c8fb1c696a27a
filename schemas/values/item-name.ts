/**
 * A map key for a name and phase, the identity of a catalog item outside the platform. All phases of a finish share the
 * name; the item without a phase is the finish as a whole.
 */
export const nameKey = (marketHashName: string, phase: string | null): string =>
  phase === null ? marketHashName : `${marketHashName}\u0000${phase}`
