import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode, startTransition } from 'react'
import { createRoot } from 'react-dom/client'
import { applyTheme } from './design/theme.tsx'
import type { MarketLink } from './market/market-link.ts'
import { openRouter } from './router.tsx'
import { MarketProvider } from './session/market-context.tsx'

const FRESH_MS = 60_000
const KEEP_MS = 900_000

export function showConsole(link: MarketLink, basepath: string): void {
  const root = document.getElementById('root')
  if (!root) return
  const router = openRouter(basepath)
  // The client of the platform repeats what may be repeated, and each request counts: none is made by looking away and back.
  const queries = new QueryClient({
    defaultOptions: { queries: { retry: false, refetchOnWindowFocus: false, staleTime: FRESH_MS, gcTime: KEEP_MS } },
  })
  applyTheme()
  // Its address is relative, and would be read again from that of each further page.
  for (const icon of document.querySelectorAll<HTMLLinkElement>('link[rel=icon]')) icon.href = String(icon.href)
  startTransition(() =>
    createRoot(root).render(
      <StrictMode>
        <QueryClientProvider client={queries}>
          <MarketProvider link={link}>
            <RouterProvider router={router} />
          </MarketProvider>
        </QueryClientProvider>
      </StrictMode>,
    ),
  )
}
