/** Medians and percentiles, no means: a neighbour's burst on the machine is no part of the result. */

/** The middle of some values, the mean of the two middle ones when their number is even; NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  const upper = sorted[Math.floor(middle)] ?? Number.NaN
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? Number.NaN) + upper) / 2 : upper
}

/** The smallest value that a share (0 to 1) of all values does not exceed; NaN of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

/** The largest of some values, for times that have a limit each; NaN of none. */
export const worst = (values: readonly number[]): number =>
  values.length === 0 ? Number.NaN : values.reduce((most, value) => Math.max(most, value))

/** The median of the slopes between any two points, which one point far off does not move (Theil and Sen); NaN of fewer than two. */
export const slope = (points: readonly (readonly [x: number, y: number])[]): number =>
  median(points.flatMap(([x, y], at) => points.slice(at + 1).map(([nextX, nextY]) => (nextY - y) / (nextX - x))))
