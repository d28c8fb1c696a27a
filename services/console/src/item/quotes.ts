/**
 * The ask and the bid of an item at each marketplace.
 *
 * Asks are read once, with their links. Where the tier has a feed the worker then has them live in dollars: those of the API are replaced by
 * them, or in another currency read again every ten seconds.
 */
import { useQuery } from '@tanstack/react-query'
import type { Quote } from '../market/ask-table.ts'
import { useCurrency } from '../session/currency.tsx'
import { useLink, useMarket } from '../session/market-context.tsx'

export interface ItemQuote {
  provider: string
  /** Hundredths of the chosen currency. */
  price: number
  quantity: number
  /** Of the last change: milliseconds since the epoch. */
  changedAt: number
  link?: string
}

export interface ItemAsks {
  /** Lowest first; undefined until they are known. */
  quotes: readonly ItemQuote[] | undefined
  error: unknown
  retry(): void
}

const READ_AGAIN_MS = 10_000

/** As the feed has them, in dollars; undefined where there is none. */
export const useLiveAsks = (itemId: number): readonly Quote[] | undefined =>
  useLink(({ asks, state: { status } }) =>
    asks?.itemId === itemId && (status === 'live' || status === 'interrupted') ? asks.asks : undefined,
  )

export function useAsks(itemId: number): ItemAsks {
  const market = useMarket()
  const { code } = useCurrency()
  const live = useLiveAsks(itemId)
  const { data, error, refetch } = useQuery({
    queryKey: ['asks', itemId, code],
    queryFn: ({ signal }) => market.client().listPrices({ item_id: itemId, currency: code }, { signal }),
    refetchInterval: live !== undefined && code !== 'USD' ? READ_AGAIN_MS : false,
  })
  const read = data?.items.map(({ provider, lowest_ask, quantity, timestamp, link }) => ({
    provider,
    price: lowest_ask,
    quantity,
    link,
    changedAt: Date.parse(timestamp),
  }))
  const quotes = live && code === 'USD' ? live.map(quote => withLink(quote, read)) : read
  return { quotes: quotes?.toSorted((a, b) => a.price - b.price), error, retry: () => void refetch() }
}

/** A quote of the feed, whose state has the time of a refresh for what has not changed since. */
function withLink({ provider, price, quantity, seenAt }: Quote, read: readonly ItemQuote[] = []): ItemQuote {
  const known = read.find(quote => quote.provider === provider)
  const isSame = known?.price === price && known.quantity === quantity
  return { ...known, provider, price, quantity, changedAt: isSame ? known.changedAt : seenAt }
}

/** Highest first. */
export function useBids(itemId: number, isPermitted: boolean) {
  const market = useMarket()
  const { code } = useCurrency()
  return useQuery({
    queryKey: ['bids', itemId, code],
    queryFn: async ({ signal }) => {
      const { items } = await market.client().listBids({ item_id: itemId, currency: code }, { signal })
      return items
        .map(({ provider, highest_bid, num_bids, timestamp }): ItemQuote => {
          return { provider, price: highest_bid, quantity: num_bids, changedAt: Date.parse(timestamp) }
        })
        .toSorted((a, b) => b.price - a.price)
    },
    enabled: isPermitted,
  })
}
