/** Throw, so that a benchmark whose load was not the one that it names fails instead of reporting a figure. */

const LEAST_SHARE = 0.98

/** Throws when less than 98 % of what was to be done was done. */
export function requireOffered(what: string, done: number, offered: number): void {
  // Written this way round, a figure that is no number is refused too.
  if (!(done >= LEAST_SHARE * offered))
    throw new Error(`${what}: ${done.toFixed(1)} of ${offered.toFixed(1)} that are claimed`)
}

/** Throws when there is nothing where something is to be measured or checked. */
export function requireSome(what: string, count: number): void {
  if (!(count > 0)) throw new Error(`${what}: there are none`)
}
