/**
 * GET /prices by item, all 41 rows, against a bare Express route that sends the same bytes.
 *
 * Once for a few items that are asked for again and again, once for more items than the query service
 * keeps in memory. 64 kept connections, both servers in processes of their own, the market at rest.
 */

import { newKey } from '../api-access.ts'
import type { Bench, Entry } from '../bench.ts'
import { ratioEntry } from '../entry.ts'
import { measureRoute } from '../http-turns.ts'
import { serveApi } from '../serve-api.ts'

const BAR = 0.6
const SPREADS = [
  { name: 'some items', items: 500 },
  { name: 'many items', items: 8_000 },
]

/** Requests a second. */
export const prices: Bench = {
  name: 'prices',
  about: 'requests a second of GET /prices by item, against bare Express with the same bytes',
  async run(context) {
    const stage = await context.stage()
    const process = await serveApi(stage, text => context.say(text))
    const headers = { authorization: `Bearer ${await newKey(stage)}` }
    const listed = stage.market.itemIds
    const entries: Entry[] = []
    for (const { name, items } of SPREADS) {
      const step = Math.max(1, Math.floor(listed.length / items))
      const questions = listed
        .filter((_, each) => each % step === 0)
        .slice(0, items)
        .map(itemId => ({ path: `/prices?item_id=${itemId}` }))
      const route = { baseUrl: process.baseUrl, headers, questions }
      const turns = await measureRoute(context, { process, ...route })
      entries.push(
        ratioEntry({ name: `GET /prices, ${name}: against bare Express`, unit: 'requests/s' }, turns.rate, BAR),
        ratioEntry({ name: `GET /prices, ${name}: CPU of a request, beside bare Express`, unit: 'us' }, turns.cpu),
        ratioEntry({ name: `GET /prices, ${name}: p50, beside bare Express`, unit: 'ms' }, turns.p50Ms),
        ratioEntry({ name: `GET /prices, ${name}: p99, beside bare Express`, unit: 'ms' }, turns.p99Ms),
      )
    }
    return entries
  },
}
