/**
 * The Redis view of the exchange rates in force.
 *
 * One JSON text, beside the offset that it reflects. Rates are decimal text with all the digits
 * of their source; read them with parseRate. Sole writer: streams/fx.
 */
import type { Instant } from '../values/instant.ts'

/** The exchange rates in force. */
export interface FxCurrent {
  /** When the source says that they were in force. */
  as_of: Instant
  /** Code → units per US dollar; USD is `1`. */
  rates: Record<string, string>
}

/** Key of the JSON text of {@link FxCurrent}; absent until the first table came. */
export const fxCurrentKey = (prefix = ''): string => `${prefix}{fx}:current`

/** Key of the offset that {@link fxCurrentKey} reflects. */
export const fxNextKey = (prefix = ''): string => `${prefix}{fx}:next`
