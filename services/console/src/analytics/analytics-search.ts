/** States of the pages of the whole market in their addresses. */
export interface AnalyticsSearch {
  window?: '1h' | '7d' | undefined
  group?: 'weapon_type' | undefined
  buy?: string | undefined
  sell?: string | undefined
  spread?: string | undefined
  fee?: string | undefined
  capital?: string | undefined
  age?: string | undefined
}

const number = (value: unknown): string | undefined => (/^\d+(\.\d+)?$/.test(String(value)) ? String(value) : undefined)

const provider = (value: unknown): string | undefined => (/^\w+$/.test(String(value ?? '')) ? String(value) : undefined)

export const readAnalyticsSearch = (search: Record<string, unknown>): AnalyticsSearch => ({
  window: search.window === '1h' || search.window === '7d' ? search.window : undefined,
  group: search.group === 'weapon_type' ? 'weapon_type' : undefined,
  buy: provider(search.buy),
  sell: provider(search.sell),
  spread: number(search.spread),
  fee: number(search.fee),
  capital: number(search.capital),
  age: number(search.age),
})
