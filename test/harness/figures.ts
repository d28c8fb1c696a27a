interface Figure {
  test: string
  what: string
  value: number
  unit: 's' | 'times' | 'share' | 'values' | 'KiB'
  limit: { atMost: number } | { atLeast: number }
}

/** Prints a figure of a run; throws when it is beyond its limit, or none at all. */
export function expectFigure({ test, what, value, unit, limit }: Figure): void {
  const [word, bound] = 'atMost' in limit ? ['at most', limit.atMost] : ['at least', limit.atLeast]
  const line = `${test}: ${what} ${Number(value).toPrecision(3)} ${unit} (${word} ${bound})`
  console.log(`      ${line}`)
  const holds = 'atMost' in limit ? value <= limit.atMost : value >= limit.atLeast
  if (!holds) throw new Error(line)
}
