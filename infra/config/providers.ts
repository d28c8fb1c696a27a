/**
 * The registry of providers: who they are, as data.
 *
 * Read from infra/config/providers.json, or from the file that MARKETLOG_PROVIDERS names. How a provider's data is fetched
 * is not here but in a market file (market.ts).
 */
import { z } from 'zod'
import { loadCurrencies } from './currencies.ts'
import { readJsonFile } from './json-file.ts'

const fee = z.number().min(0).lt(1).nullable()

const intervalMs = z.number().int().min(1_000)

const provider = z.strictObject({
  /** Lowercase token that clients send. */
  key: z.string().regex(/^[a-z][a-z0-9_-]{0,63}$/, 'expected a lowercase token'),
  display_name: z.string().min(1),
  code: z.string().regex(/^[A-Z0-9]{2,8}$/, 'expected 2 to 8 capitals or digits'),
  market_type: z.enum(['STORE', 'P2P', 'ESCROW', 'TRADING', 'HYBRID']),
  default_currency: z.string(),
  /** Decimal fractions; null = not applicable. */
  fees: z.strictObject({ sell_fee: fee, insta_sell_fee: fee, trading_spread_fee: fee }),
  features: z.strictObject({ has_buy_orders: z.boolean(), has_recent_sales: z.boolean() }),
  logo: z.url(),
  /** An RFC 6570 template with `{market_hash_name}`, `{phase}`, `{item_id}`, or as a query `{?phase}`. */
  link_template: z
    .string()
    .regex(/^https?:\/\/[^{}]+/, 'expected an http(s) URL')
    .refine(hasKnownVariables, {
      error: 'expected a template with {market_hash_name} or {item_id}, and {phase} at most',
    }),
  /** Hosts to which its offers may lead beside that of the template, with their port where it is not the usual one. */
  hosts: z
    .array(z.string().refine(text => hostOf(`https://${text}`) === text, 'expected a host such as "shop.example"'))
    .default([]),
  /** How often its asks and bids are refreshed; its health is judged by it. */
  refresh_interval_ms: intervalMs,
  /** Whether it has shut down; its history is kept, and shown where it is asked for. */
  is_defunct: z.boolean().default(false),
  /** How often its sales are refreshed; null for a provider without sales. */
  sales_interval_ms: intervalMs.nullable(),
})

const hostOf = (url: string): string => URL.parse(url)?.host ?? ''

export type Provider = z.infer<typeof provider>

/** All marketplaces, and the sets of keys by what they offer; every list is sorted by key. Every provider shows asks. */
export type ProviderRegistry = ReturnType<typeof loadProviders>

const providersFile = z.strictObject({ providers: z.array(provider).min(1) }).superRefine(({ providers }, context) => {
  const currencies = new Set(loadCurrencies())
  const seen = { key: new Set<string>(), code: new Set<string>(), display_name: new Set<string>() }
  providers.forEach((entry, i) => {
    const fault = (field: keyof Provider, message: string) =>
      context.addIssue({ code: 'custom', path: ['providers', i, field], message })
    for (const field of ['key', 'code', 'display_name'] as const) {
      if (seen[field].has(entry[field])) fault(field, `"${entry[field]}" is used twice`)
      seen[field].add(entry[field])
    }
    if (!currencies.has(entry.default_currency)) fault('default_currency', `unknown code "${entry.default_currency}"`)
    if (entry.features.has_recent_sales !== (entry.sales_interval_ms !== null))
      fault('sales_interval_ms', 'expected a number exactly when features.has_recent_sales is true')
  })
})

export function loadProviders(file: string | URL = new URL('./providers.json', import.meta.url)) {
  const all = readJsonFile(file, providersFile)
    .providers.map(entry => ({ ...entry, hosts: [hostOf(entry.link_template), ...entry.hosts] }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
  const keysWhere = (holds: (entry: Provider) => boolean) => all.filter(holds).map(entry => entry.key)
  return {
    all,
    byKey: new Map(all.map(entry => [entry.key, entry])),
    askKeys: keysWhere(() => true),
    bidKeys: keysWhere(entry => entry.features.has_buy_orders),
    saleKeys: keysWhere(entry => entry.features.has_recent_sales),
  }
}

export interface LinkTarget {
  item_id: number
  market_hash_name: string
  phase: string | null
}

const EXPRESSION = /\{([^{}]*)\}/
const VARIABLES = new Set<string>(['item_id', 'market_hash_name', 'phase'] satisfies (keyof LinkTarget)[])

const variablesOf = (expression: string): string[] => expression.replace(/^\?/, '').split(',')

function hasKnownVariables(template: string): boolean {
  const names = template.split(EXPRESSION).flatMap((piece, at) => (at % 2 === 1 ? variablesOf(piece) : []))
  const isKnown = names.every(name => VARIABLES.has(name))
  return isKnown && (names.includes('market_hash_name') || names.includes('item_id'))
}

/** Template → its texts, and between them its expressions. */
const piecesOf = new Map<string, readonly string[]>()
/** The item that was asked for last, and its values of the expressions. */
let last: { item: LinkTarget; expanded: Map<string, string> } | undefined

/**
 * The marketplace's URL of an item: its template expanded as RFC 6570 does for simple (`{x}`) and
 * query (`{?x,y}`) expressions. Values are percent-encoded; a null phase leaves its part out.
 *
 * A page of prices has a thousand of them, those of an item together: a template is taken apart once, and an item's values are encoded once.
 */
export function marketplaceUrl({ link_template: template }: Provider, item: LinkTarget): string {
  const pieces = piecesOf.get(template) ?? template.split(EXPRESSION)
  piecesOf.set(template, pieces)
  if (last?.item !== item) last = { item, expanded: new Map() }
  const { expanded } = last
  let url = ''
  for (let at = 0; at < pieces.length; at++) {
    const piece = pieces[at] as string
    const value = at % 2 === 0 ? piece : (expanded.get(piece) ?? expand(piece, item))
    if (at % 2 === 1) expanded.set(piece, value)
    url += value
  }
  return url
}

function expand(expression: string, item: LinkTarget): string {
  const isQuery = expression.startsWith('?')
  const values = variablesOf(expression).flatMap(name => {
    const value = item[name as keyof LinkTarget]
    if (value === null) return []
    const encoded = encodeURIComponent(value).replace(/[!'()*]/g, percent)
    return isQuery ? `${name}=${encoded}` : encoded
  })
  return isQuery && values.length > 0 ? `?${values.join('&')}` : values.join(',')
}

const percent = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
