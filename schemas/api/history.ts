/** Rules: DECISIONS.md, "History and sales" and "History chart". Prices are hundredths of the answer's currency. */
import { z } from 'zod'
import {
  boolean,
  currency,
  hasItem,
  integer,
  isOrdered,
  itemSelector,
  type MarketScope,
  needsItem,
  needsOrder,
  pageCursor,
  providerKey,
  providersParameter,
  timeWindow,
} from './query-values.ts'
import { amount, currencyName, cursorPages, instant, itemMembers, providerName } from './reply-values.ts'

export const historyQuery = ({ providers, isCurrency }: MarketScope) =>
  z
    .object({
      ...itemSelector,
      provider: providerKey(providers)
        .optional()
        .meta({ description: 'One provider key. All when left out.', example: 'provider_02' }),
      ...timeWindow,
      currency: currency(isCurrency),
      limit: integer({ min: 1, max: 1000 })
        .default(100)
        .meta({ description: 'Entries of a page, 100 by default.', example: 50 }),
      cursor: pageCursor(),
    })
    .refine(hasItem, needsItem)
    .refine(isOrdered, needsOrder)

const historyRecord = z
  .strictObject({
    ...itemMembers,
    provider: z.string().meta({ description: 'Display name of the provider.', example: 'Market Two' }),
    time: instant.meta({ example: '2026-03-03T21:34:30.549Z' }),
    price: amount.meta({ example: 2931 }),
    currency: currencyName,
    quantity: z.int().meta({ example: 14 }),
  })
  .meta({ id: 'HistoryEntry' })

export const historyReply = z.strictObject({
  meta: z.strictObject({
    currency: currencyName,
    filters: z
      .strictObject({
        item_id: z.int().optional(),
        market_hash_name: z.string().optional(),
        phase: z.string().optional(),
        provider: z.string().optional(),
        start: instant,
        end: instant,
      })
      .meta({ example: { item_id: 4940, start: '2026-02-17T21:41:00.000Z', end: '2026-03-03T21:41:00.000Z' } }),
    result_count: z.int().meta({ example: 1 }),
  }),
  items: z.array(historyRecord),
  pagination: cursorPages(100),
})

export const historyChartQuery = ({
  askKeys,
  isCurrency,
}: { askKeys: readonly string[] } & Pick<MarketScope, 'isCurrency'>) =>
  z
    .object({
      item_id: itemSelector.item_id,
      market_hash_name: itemSelector.market_hash_name,
      providers: providersParameter(askKeys),
      ...timeWindow,
      lookback: integer({ min: 1, max: 36_500 }).optional().meta({
        description: 'Length of the window in days, up to `end`. Takes precedence over `start`.',
        example: 7,
      }),
      currency: currency(isCurrency),
      include_defunct: boolean().default(false).meta({
        description: 'Include providers that have shut down and whose history is kept.',
        example: false,
      }),
    })
    .refine(hasItem, needsItem)
    .refine(query => query.lookback !== undefined || isOrdered(query), needsOrder)

export type HistoryChartQuery = z.infer<ReturnType<typeof historyChartQuery>>

export const historyChartReply = z.strictObject({
  meta: z.strictObject({
    item_id: itemMembers.item_id,
    market_hash_name: itemMembers.market_hash_name,
    currency: currencyName,
    start: instant.meta({ example: '2026-03-01T00:00:00.000Z' }),
    end: instant.meta({ example: '2026-03-03T00:00:00.000Z' }),
    providers: z.array(providerName),
  }),
  series: z.array(
    z.strictObject({
      provider: providerName,
      data: z.array(z.strictObject({ t: z.int(), price: amount, qty: z.int().nullable() })).meta({
        example: [
          { t: 1_772_323_200, price: 2920, qty: 12 },
          { t: 1_772_409_600, price: 2931, qty: null },
        ],
      }),
    }),
  ),
})
