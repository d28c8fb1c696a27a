/** The frame of every page: where one may go, how the market is read, and what is left of the key. */
import { Link, Outlet, useMatchRoute } from '@tanstack/react-router'
import { Suspense } from 'react'
import icon from '../../../api/assets/icon.svg'
import { Age, Moment } from '../design/moment.tsx'
import { Loading } from '../design/states.tsx'
import { ThemeChoice } from '../design/theme.tsx'
import type { MarketState } from '../market/messages.ts'
import { CurrencyChoice } from '../session/currency.tsx'
import { useLink, useMarket } from '../session/market-context.tsx'
import { formatCount } from '../values/amounts.ts'
import { KeyForm } from './key-form.tsx'
import { Shortcuts } from './shortcuts.tsx'

const PAGES = [
  ['/', 'Board'],
  ['/movers', 'Movers'],
  ['/indexes', 'Indexes'],
  ['/arbitrage', 'Arbitrage'],
  ['/providers', 'Providers'],
] as const

export function Frame() {
  const key = useLink(snapshot => snapshot.key)
  const isBoard = useMatchRoute()({ to: '/' })
  return (
    <div className="frame">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <header className="bar">
        <Link to="/" className="brand">
          <img src={icon} alt="" width="22" height="22" /> marketlog
        </Link>
        {key && (
          <>
            <nav aria-label="Pages">
              {PAGES.map(([to, text]) => (
                <Link key={to} to={to} activeOptions={{ exact: true, includeSearch: false }}>
                  {text}
                </Link>
              ))}
            </nav>
            <div className="tools">
              <Status />
              <UsageNote />
              <CurrencyChoice />
              <ThemeChoice />
              <ForgetKey />
            </div>
          </>
        )}
      </header>
      <main id="main" tabIndex={-1} className={key && isBoard ? 'whole' : undefined}>
        {key === undefined && <Loading of="the console" />}
        {key === null && <KeyForm />}
        {key && (
          <Suspense fallback={<Loading of="the page" />}>
            <Outlet />
          </Suspense>
        )}
      </main>
      {key && <Shortcuts />}
    </div>
  )
}

const BADGES: Record<MarketState['status'], [text: string, className: string]> = {
  loading: ['Loading', 'badge'],
  live: ['Live', 'badge live'],
  interrupted: ['Interrupted', 'badge cut'],
  snapshot: ['Snapshot', 'badge'],
  refused: ['Refused', 'badge cut'],
  failed: ['Not read', 'badge cut'],
}

/** How the market is read. Its number changes every second, which is not read out. */
function Status() {
  const market = useMarket()
  const { status, readAt, changesPerSecond } = useLink(({ state }) => state)
  const [text, className] = BADGES[status]
  return (
    <>
      <span className={className}>
        <span role="status">{text}</span>
        {status === 'live' && <span className="optional">{formatCount(changesPerSecond)} changes/s</span>}
        {readAt !== null && <Age at={readAt} />}
      </span>
      {(status === 'snapshot' || status === 'failed') && (
        <button type="button" onClick={() => market.refresh()}>
          Read again
        </button>
      )}
    </>
  )
}

function UsageNote() {
  const usage = useLink(snapshot => snapshot.usage)
  if (!usage) return null
  const { tier, remaining, limit, resetAt } = usage
  return (
    <span className="quiet" title={`of ${formatCount(limit)} requests a month`}>
      {tier} · {formatCount(remaining)} <span className="optional">requests </span>left
      <span className="unseen">
        {' '}
        until <Moment at={resetAt} />
      </span>
    </span>
  )
}

function ForgetKey() {
  const market = useMarket()
  return (
    <button type="button" title="In all tabs" onClick={() => market.forget()}>
      Forget key
    </button>
  )
}
