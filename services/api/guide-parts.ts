/** The parts of guides that are made of data: the table of tiers, and those of the error codes. */
import { STATUS_CODES } from 'node:http'
import { TIERS, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import { ERROR_STATUS, type ErrorCode } from '#schemas/api/error.ts'
import { ERROR_MEANINGS } from '#schemas/api/error-meanings.ts'

const LIMITS: Readonly<Record<keyof TierLimits, string>> = {
  requests_per_minute: 'requests a minute',
  requests_per_month: 'requests a month',
  list_page_max: 'rows of a page of prices or bids',
  sales_page_default: 'sales of a page',
  prices_stream_starts_per_day: 'bulk snapshots of asks in 24 hours',
  bids_stream_starts_per_day: 'bulk snapshots of buy orders in 24 hours',
  feed_connections: 'live feeds at once',
  candle_intervals: 'intervals of candles',
  lookback_days_max: 'days of candles',
  can_choose_window: 'candles by `start`, `end` and `fill`',
  portfolios: 'portfolios',
  portfolio_items: 'items of a portfolio',
  enabled_alerts: 'enabled alerts',
  alerts: 'alerts, disabled ones too',
  transactions: 'transactions of all portfolios',
  expensive_requests_per_minute: 'expensive requests a minute',
  child_keys: 'child keys',
  webhooks: 'webhooks',
}
const NULLS: Partial<Record<keyof TierLimits, string>> = { lookback_days_max: 'all' }

/** Markdown: a row for each limit, a column for each tier. */
export function tierTable(tiers: Record<Tier, TierLimits>): string {
  const rows = (Object.keys(LIMITS) as (keyof TierLimits)[]).map(name =>
    rowOf([LIMITS[name], ...TIERS.map(tier => shown(name, tiers[tier][name]))]),
  )
  return [rowOf(['', ...TIERS]), rowOf(['---', ...TIERS.map(() => '---:')]), ...rows].join('\n')
}

const rowOf = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

function shown(name: keyof TierLimits, value: TierLimits[keyof TierLimits]): string {
  if (value === null) return NULLS[name] ?? 'none'
  if (typeof value === 'object') return value.join(' ')
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return value === 0 ? 'none' : value.toLocaleString('en')
}

/** Markdown: a table for each status. The place of a code is the code. */
export function errorTables(): string {
  const byStatus = Map.groupBy(Object.keys(ERROR_STATUS) as ErrorCode[], code => ERROR_STATUS[code])
  const chapters = [...byStatus].map(([status, codes]) => {
    const rows = codes.map(code => {
      const { cause, remedy } = ERROR_MEANINGS[code]
      return rowOf([`<a id="${code}"></a>\`${code}\``, cause, remedy])
    })
    const head = [rowOf(['code', 'cause', 'what to do']), rowOf(['---', '---', '---'])]
    return `### ${status} ${STATUS_CODES[status]}\n\n${[...head, ...rows].join('\n')}`
  })
  return chapters.join('\n\n')
}
