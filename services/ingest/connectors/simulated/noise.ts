/**
 * Repeatable noise: every value of the simulated market is a function of hashes and time.
 *
 * Pure. Uses 32-bit integers and the four exact operations of doubles only, never the functions whose
 * last digit may differ between machines. Invariant: the same arguments give the same value on every
 * machine and in every version of the engine, with no state between calls.
 */

/** Mixes two 32-bit integers into one (finalizer of MurmurHash3). */
export function mix(a: number, b: number): number {
  let hash = a ^ Math.imul(b, 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}

/** Hashes a text to 32 bits (FNV-1a over its code units, then mixed with the seed). */
export function textHash(text: string, seed: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return mix(hash, seed)
}

/** A hash as a fraction in [0, 1). */
export const unit = (hash: number): number => (hash >>> 0) / 2 ** 32

/** A smooth curve in [0, 1) through one random point per period (value noise). */
export function wave(hash: number, time: number, period: number): number {
  const at = time / period
  const knot = Math.floor(at)
  const part = at - knot
  const from = unit(mix(hash, knot))
  const to = unit(mix(hash, knot + 1))
  return from + (to - from) * part * part * (3 - 2 * part)
}

/** Which of its lives something is in at a time; lives of one length start at a phase of its own. */
export const epochAt = (time: number, lifetime: number, phase: number): number => Math.floor(time / lifetime + phase)

export const epochStart = (epoch: number, lifetime: number, phase: number): number => (epoch - phase) * lifetime
