/**
 * The entry: the worker first, since what it asks for takes longest, then what shows it.
 *
 * Libraries are run one by one and rows rendered in slices, so that the browser draws and answers between.
 */
import './design/design.css'
import { openMarketLink } from './market/market-link.ts'

/** The console may be at the root of its host, below /v1, or below what a proxy adds. */
const [, prefix = '', path = '/console'] = /^(.*?)(\/console)(\/|$)/.exec(location.pathname) ?? []
const link = openMarketLink(location.origin + prefix)
await import('react-dom/client')
await import('@tanstack/react-router')
const { showConsole } = await import('./console.tsx')
showConsole(link, prefix + path)
