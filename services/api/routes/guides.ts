/** GET /docs and the guides below it, made at the start of the Markdown in services/api/guides. */
import { readFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import { TIERS, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { bytes } from '#infra/http/reply.ts'
import { ERROR_STATUS, type ErrorCode } from '#schemas/api/error.ts'
import { ERROR_MEANINGS } from '#schemas/api/error-meanings.ts'
import type { Operation } from '#schemas/api/operation.ts'
import type { ApiContext } from '../context.ts'
import { type Guide, renderGuide } from '../guide-text.ts'
import { DOCUMENT, escaped, HTML_TYPE, policyOf, rootFrom, type Site } from '../site.ts'

/** The guides in their order, and the page that leads to them. */
interface Guides {
  overview: Guide
  guides: readonly Guide[]
}

const ORDER =
  'quick-start packages authentication errors prices analytics feeds alerts webhooks portfolios topics changelog'.split(
    ' ',
  )
/** The platform that serves them, in guides. */
const EXAMPLE_ROOT = 'https://marketlog.example'

export function readGuides(operations: readonly Operation[], { tiers, baseUrl }: ApiContext): Guides {
  const shared = { operations, drawing: readFile }
  const parts = { tiers: tierTable(tiers), errors: errorTables() }
  const render = (name: string, folder: string, more: Record<string, string> = {}): Guide => {
    const markdown = readFile(`${name}.md`).replaceAll(EXAMPLE_ROOT, baseUrl)
    return renderGuide(name, markdown, { ...shared, folder, parts: { ...parts, ...more } })
  }
  const guides = ORDER.map(name => render(name, ''))
  const cards = guides.map(
    ({ name, title, lead }) => `<li><a href="docs/${name}">${escaped(title)}</a> <span>${escaped(lead)}</span></li>`,
  )
  return { overview: render('overview', 'docs/', { guides: `<ul class="cards">${cards.join('')}</ul>` }), guides }
}

export function guidePages({ overview, guides }: Guides, site: Site): Endpoint[] {
  const places = placesOf(guides)
  return [overview, ...guides].map((guide, at) => {
    const path = guide === overview ? 'docs' : `docs/${guide.name}`
    const { name, title, lead, html, contents } = guide
    const around = guide === overview ? '' : turnOf(guides[at - 2], guides[at])
    const page = site.page('guide.html', {
      path,
      texts: { name, title, lead },
      html: { guides: menuOf(path, guides), turn: around, article: html, contents: contentsOf(contents), places },
    })
    const policy = policyOf()
    return definePage('get', `/${path}`, 'documents', ({ request, response }) =>
      // Links are relative to the path without the slash.
      request.path.endsWith('/')
        ? bytes(response, undefined, { status: 308, headers: ['Location', `../${path.split('/').at(-1)}`] })
        : bytes(response, page, { type: HTML_TYPE, cache: DOCUMENT, policy }),
    )
  })
}

/** A search finds the guides and their headings. */
function placesOf(guides: readonly Guide[]): string {
  const places = guides.flatMap(({ name, title, contents }) => [
    { path: name, text: title },
    ...contents.map(({ id, text }) => ({ path: `${name}#${id}`, text: `${title}: ${text}` })),
  ])
  return places.map(({ path, text }) => `<option value="${escaped(text)}" data-path="${path}">`).join('')
}

function menuOf(path: string, guides: readonly Guide[]): string {
  const root = rootFrom(path)
  const links = [{ to: 'docs', title: 'Overview' }, ...guides.map(({ name, title }) => ({ to: `docs/${name}`, title }))]
  const items = links.map(({ to, title }) => {
    const isCurrent = to === path ? ' aria-current="page"' : ''
    return `<li><a href="${root}${to}"${isCurrent}>${escaped(title)}</a></li>`
  })
  return `<ul>${items.join('')}</ul>`
}

function contentsOf(contents: Guide['contents']): string {
  if (contents.length < 2) return ''
  const items = contents.map(
    ({ depth, id, text }) => `<li class="depth-${depth}"><a href="#${id}">${escaped(text)}</a></li>`,
  )
  return `<nav class="contents" aria-label="On this page"><details open><summary>On this page</summary><ul>${items.join('')}</ul></details></nav>`
}

function turnOf(before: Guide | undefined, after: Guide | undefined): string {
  const link = (guide: Guide | undefined, rel: string, word: string): string =>
    guide ? `<a rel="${rel}" href="${guide.name}"><small>${word}</small> ${escaped(guide.title)}</a>` : '<span></span>'
  return `<nav class="turn" aria-label="Other guides">${link(before, 'prev', 'Before')}${link(after, 'next', 'Next')}</nav>`
}

const readFile = (file: string): string => readFileSync(new URL(`../guides/${file}`, import.meta.url), 'utf8')

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
function tierTable(tiers: Record<Tier, TierLimits>): string {
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
function errorTables(): string {
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
