/**
 * GET /prices by item, all 41 rows, against a bare Express route that sends the same bytes.
 *
 * For a few items that are asked for again and again; for twice as many as the query service keeps in memory, one after
 * the other, so that no answer is of a kept item; and for as many while 5,000 changes a second arrive, of 20 providers
 * that list 250 of these items each. 64 kept connections, both servers in processes of their own.
 */
import { ITEMS_KEPT } from '#streams/live-view/reader.ts'
import { newKey } from '../account-keys.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { ratioEntry } from '../entry.ts'
import { type HttpTurns, measureRoute } from '../http-turns.ts'
import { serveApi } from '../serve-api.ts'
import { smallKeys, whileChanging, writeProviders } from '../small-providers.ts'
import type { Stage } from '../stage.ts'

const SOME_ITEMS = 500
const MANY_ITEMS = 20_000
const PROVIDERS = 20
const ITEMS_OF_A_PROVIDER = 250
const CHANGES_PER_SECOND = 5_000
const JUDGE_LIMIT_MS = 30_000

/** Requests a second. */
export const prices: Bench = {
  name: 'prices',
  about: 'requests a second of GET /prices by item, against bare Express with the same bytes, also under changes',
  ownStage: true,
  async run(context) {
    const stage = await context.stage()
    const many = manyItems(context, stage)
    const keys = smallKeys(PROVIDERS)
    const env = { MARKETLOG_PROVIDERS: writeProviders(stage, keys) }
    const process = await serveApi(stage, text => context.say(text), env)
    const headers = { authorization: `Bearer ${await newKey(stage)}` }
    const measure = (itemIds: readonly number[], beside?: (turns: () => Promise<void>) => Promise<void>) =>
      measureRoute(context, {
        process,
        baseUrl: process.baseUrl,
        headers,
        questions: itemIds.map(itemId => ({ path: `/prices?item_id=${itemId}` })),
        ...(beside && { beside }),
      })
    const step = Math.max(1, Math.floor(many.length / SOME_ITEMS))
    const some = many.filter((_, each) => each % step === 0).slice(0, SOME_ITEMS)
    const entries = [...entriesOf('some items', await measure(some)), ...entriesOf('many items', await measure(many))]
    const listings = stage.market.smallListings(keys, ITEMS_OF_A_PROVIDER)
    const { refreshes } = await stage.market.publish(listings, 1)
    await stage.judged.applied(refreshes, JUDGE_LIMIT_MS)
    const rate = { perSecond: CHANGES_PER_SECOND, listings }
    const beside = (turns: () => Promise<void>) => whileChanging(stage, rate, turns)
    return [...entries, ...entriesOf('many items while 5,000 changes a second arrive', await measure(many, beside))]
  },
}

/** Items of which the service keeps half at most; a short run asks for all that it has. */
function manyItems({ isQuick }: BenchContext, { market }: Stage): readonly number[] {
  const { itemIds } = market
  if (isQuick) return itemIds
  if (MANY_ITEMS < 2 * ITEMS_KEPT) throw new Error(`prices: the service keeps ${ITEMS_KEPT} of ${MANY_ITEMS} items`)
  if (itemIds.length < MANY_ITEMS) throw new Error(`prices: ${itemIds.length} of ${MANY_ITEMS} items are listed`)
  return itemIds.slice(0, MANY_ITEMS)
}

const entriesOf = (name: string, turns: HttpTurns): Entry[] => [
  ratioEntry({ name: `GET /prices, ${name}: against bare Express`, unit: 'requests/s', better: 'higher' }, turns.rate),
  ratioEntry(
    { name: `GET /prices, ${name}: CPU of a request, beside bare Express`, unit: 'us', better: 'lower' },
    turns.cpu,
  ),
  ratioEntry({ name: `GET /prices, ${name}: p50, beside bare Express`, unit: 'ms', better: 'lower' }, turns.p50Ms),
  ratioEntry({ name: `GET /prices, ${name}: p99, beside bare Express`, unit: 'ms', better: 'lower' }, turns.p99Ms),
]
