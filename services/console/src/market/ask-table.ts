/**
 * The asks of all items by provider: three numbers a quote in a matrix, so that a change costs no object and a state no collection of garbage.
 *
 * A state that the feed begins again is collected aside and replaces the asks when it is complete. Invariant: what is read is always a whole
 * state that the platform had.
 */
export interface Quote {
  provider: string
  /** Hundredths of a dollar. */
  price: number
  quantity: number
  /** Milliseconds since the epoch. */
  seenAt: number
}

/** NaN stands for no ask. */
interface Matrix {
  prices: Float64Array
  quantities: Float64Array
  seenAt: Float64Array
}

export interface BestAsk {
  /** NaN where there is none. */
  price: number
  provider: string | null
  providers: number
  quantity: number
}

const FIRST_ROWS = 1_024

export function openAskTable(providers: readonly string[]) {
  const columns = new Map(providers.map((provider, at) => [provider, at]))
  const width = providers.length
  let capacity = FIRST_ROWS
  let asks = emptyMatrix(capacity * width)
  let loading: Matrix | undefined

  const cellsOf = (row: number): number[] =>
    row < capacity ? Array.from(columns.values(), at => row * width + at) : []
  return {
    beginState(): void {
      loading = emptyMatrix(capacity * width)
    },
    endState(): void {
      if (!loading) return
      asks = loading
      loading = undefined
    },
    /** An ask, or with the price null that there is none any more. */
    set(
      row: number,
      provider: string,
      { price, quantity, seenAt }: Omit<Quote, 'price' | 'provider'> & { price: number | null },
    ): void {
      const column = columns.get(provider)
      if (column === undefined) return
      while (row >= capacity) {
        capacity *= 2
        asks = grown(asks, capacity * width)
        loading = loading && grown(loading, capacity * width)
      }
      const into = loading ?? asks
      const cell = row * width + column
      into.prices[cell] = price ?? Number.NaN
      into.quantities[cell] = quantity
      into.seenAt[cell] = seenAt
    },
    best(row: number): BestAsk {
      const best: BestAsk = { price: Number.NaN, provider: null, providers: 0, quantity: 0 }
      if (row >= capacity) return best
      for (let column = 0; column < width; column++) {
        const price = asks.prices[row * width + column] as number
        if (Number.isNaN(price)) continue
        best.providers += 1
        best.quantity += asks.quantities[row * width + column] as number
        if (!(price >= best.price)) Object.assign(best, { price, provider: providers[column] })
      }
      return best
    },
    /** Lowest first. */
    quotes: (row: number): Quote[] =>
      cellsOf(row)
        .map((cell, column): Quote => {
          const [price, quantity, seenAt] = [asks.prices[cell], asks.quantities[cell], asks.seenAt[cell]] as [
            number,
            number,
            number,
          ]
          return { provider: providers[column] as string, price, quantity, seenAt }
        })
        .filter(({ price }) => !Number.isNaN(price))
        .toSorted((a, b) => a.price - b.price),
  }
}

const emptyMatrix = (cells: number): Matrix => ({
  prices: new Float64Array(cells).fill(Number.NaN),
  quantities: new Float64Array(cells),
  seenAt: new Float64Array(cells),
})

function grown(from: Matrix, cells: number): Matrix {
  const matrix = emptyMatrix(cells)
  matrix.prices.set(from.prices)
  matrix.quantities.set(from.quantities)
  matrix.seenAt.set(from.seenAt)
  return matrix
}
