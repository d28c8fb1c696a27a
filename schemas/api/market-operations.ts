/**
 * The operations of market analytics.
 *
 * Invariant: one entry per route of services/api/routes/market*.ts.
 */
import { arbitrageQuery, arbitrageReply } from './arbitrage.ts'
import { historyChartQuery, historyChartReply } from './history.ts'
import { indicatorsQuery, indicatorsReply } from './indicators.ts'
import { indexesQuery, indexesReply, marketItemParams, marketItemReply, marketItemsReply } from './market.ts'
import { get, json, type Operation, type OperationScope, PRO, QUANT } from './operation.ts'

const GROUP = 'Market analytics'
const isCurrency = () => true

/** All operations of market analytics. */
export function marketOperations({ askKeys, bidKeys }: Pick<OperationScope, 'askKeys' | 'bidKeys'>): Operation[] {
  return [
    {
      ...{ ...get('listArbitrage', '/market/arbitrage', GROUP), tiers: QUANT },
      summary: 'Pairs of an ask and a bid that leave a profit after fees, best first',
      description:
        'From a snapshot that is at most 30 s old; its order stays while `generated_at` does. Quotes of providers that are down or quarantined, or older than 60 minutes, take no part. A snapshot holds the 2,000,000 best pairs. Paged by offset: a `cursor` is refused.',
      query: arbitrageQuery({ askKeys, bidKeys }),
      reply: json('ArbitrageReply', arbitrageReply, 'A page of pairs; `total` is not counted.'),
      errors: ['CURSOR_NOT_SUPPORTED'],
    },
    {
      ...{ ...get('listIndexes', '/market/indexes', GROUP), tiers: QUANT },
      summary: 'Market capitalisation by category',
      description:
        'Best ask times estimated supply. An item without ask, bid or supply, or with a spread above 50 percent, is excluded and counted.',
      query: indexesQuery,
      reply: json('IndexesReply', indexesReply, 'Groups, largest first.'),
      errors: [],
    },
    {
      ...{ ...get('readIndicators', '/market/indicators', GROUP), tiers: QUANT },
      summary: 'Technical indicators of the best ask over all providers',
      description:
        'From completed candles, gaps filled forward: 365 days of `1d`, 30 days of `1h`. What the history is too short for is null.',
      query: indicatorsQuery({ isCurrency }),
      reply: json('IndicatorsReply', indicatorsReply, 'Figures in major units of the currency.'),
      errors: ['ITEM_NOT_FOUND'],
    },
    {
      ...{ ...get('listMarketItems', '/market/items', GROUP), tiers: PRO },
      summary: 'Summary of every catalog item, by rank',
      description:
        'Computed every two minutes; `freshness_sec` tells the age. Some 40,000 rows: ask for gzip. Rank is by market capitalisation.',
      reply: json('MarketItemsReply', marketItemsReply, 'One row per catalog item.'),
      errors: [],
    },
    {
      ...{ ...get('readMarketItem', '/market/items/:item_id', GROUP), tiers: PRO },
      summary: 'Summary of one item and its providers',
      description: 'The summary as of its computation, the providers as they are now.',
      params: marketItemParams,
      reply: json('MarketItemReply', marketItemReply, 'The item; providers without an ask are left out.'),
      errors: ['ITEM_NOT_FOUND', 'PRICES_INDEX_UNAVAILABLE', 'BIDS_INDEX_UNAVAILABLE'],
    },
    {
      ...{ ...get('readHistoryChart', '/market/history/chart', GROUP), tiers: QUANT },
      summary: 'Daily closes of an item by provider, for years',
      description:
        'One of `item_id` and `market_hash_name` is required. One point per provider and UTC day; the last 365 days by default. `lookback` in days overrides `start`.',
      query: historyChartQuery({ askKeys, isCurrency }),
      reply: json('HistoryChartReply', historyChartReply, 'A series per provider with at least one point.'),
      errors: ['ITEM_NOT_FOUND'],
    },
  ]
}
