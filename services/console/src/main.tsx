import './design/design.css'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { applyTheme } from './design/theme.tsx'
import { openMarketLink } from './market/market-link.ts'
import { openRouter } from './router.tsx'
import { MarketProvider } from './session/market-context.tsx'

const FRESH_MS = 60_000
const KEEP_MS = 900_000

/** The console may be at the root of its host, below /v1, or below what a proxy adds. */
const [, prefix = '', console = '/console'] = /^(.*?)(\/console)(\/|$)/.exec(location.pathname) ?? []
const link = openMarketLink(location.origin + prefix)
const router = openRouter(prefix + console)
// The client of the platform repeats what may be repeated, and each request counts: none is made by looking away and back.
const queries = new QueryClient({
  defaultOptions: { queries: { retry: false, refetchOnWindowFocus: false, staleTime: FRESH_MS, gcTime: KEEP_MS } },
})

applyTheme()
// Its address is relative, and would be read again from that of each further page.
for (const icon of document.querySelectorAll<HTMLLinkElement>('link[rel=icon]')) icon.href = String(icon.href)
const root = document.getElementById('root')
if (root)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <MarketProvider link={link}>
          <RouterProvider router={router} />
        </MarketProvider>
      </QueryClientProvider>
    </StrictMode>,
  )
