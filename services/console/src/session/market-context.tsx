import { createContext, type ReactNode, useCallback, useContext, useSyncExternalStore } from 'react'
import type { LinkSnapshot, MarketLink } from '../market/market-link.ts'

const MarketContext = createContext<MarketLink | undefined>(undefined)

export const MarketProvider = ({ link, children }: { link: MarketLink; children: ReactNode }) => (
  <MarketContext value={link}>{children}</MarketContext>
)

export function useMarket(): MarketLink {
  const link = useContext(MarketContext)
  if (!link) throw new Error('there is no link to the market')
  return link
}

/** A part of what the worker has sent last; the component renders again when that part is another. */
export function useLink<T>(part: (snapshot: LinkSnapshot) => T): T {
  const { subscribe, snapshot } = useMarket()
  return useSyncExternalStore(subscribe, () => part(snapshot()))
}

/** The name that a provider is shown by. */
export function useProviderName(): (provider: string) => string {
  const providers = useLink(({ names }) => names.providers)
  return useCallback((provider: string) => providers[provider]?.name ?? provider, [providers])
}
