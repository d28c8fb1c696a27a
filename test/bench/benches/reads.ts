/**
 * The long reads of the API against a bare Express route that sends the same bytes: a page of 1,000 rows, a batch of
 * 100 items, the whole catalog. Also, in this process, what each start and each unknown name cost with the whole catalog.
 *
 * The market is at rest, keys and limits are those of every request.
 */
import { loadCatalog } from '#infra/config/catalog.ts'
import { nearestName } from '#services/api/queries/near-names.ts'
import { newKey } from '../account-keys.ts'
import type { Bench, Entry } from '../bench.ts'
import { figureEntry, ratioEntry } from '../entry.ts'
import type { HttpQuestion } from '../http-load.ts'
import { measureRoute } from '../http-turns.ts'
import { serveApi } from '../serve-api.ts'
import type { Stage } from '../stage.ts'

const PAGE_ROWS = 1_000
const PAGES = 40
const BATCH_ITEMS = 100
const BATCHES = 40
const LOADS = 5
const NAMES = 300

/** Requests a second. */
export const reads: Bench = {
  name: 'reads',
  about: 'pages, batches and the whole catalog, against bare Express with the same bytes',
  async run(context) {
    const stage = await context.stage()
    const process = await serveApi(stage, text => context.say(text))
    const headers = { authorization: `Bearer ${await newKey(stage)}` }
    const entries: Entry[] = []
    for (const [name, questions] of Object.entries(questionsOf(stage))) {
      context.say(name)
      const turns = await measureRoute(context, {
        process,
        baseUrl: process.baseUrl,
        headers,
        questions,
      })
      entries.push(
        ratioEntry({ name: `${name}: against bare Express`, unit: 'requests/s', better: 'higher' }, turns.rate),
        ratioEntry({ name: `${name}: CPU of a request, beside bare Express`, unit: 'us', better: 'lower' }, turns.cpu),
        ratioEntry({ name: `${name}: p99, beside bare Express`, unit: 'ms', better: 'lower' }, turns.p99Ms),
      )
    }
    return [...entries, ...catalogEntries()]
  },
}

function catalogEntries(): Entry[] {
  const timed = <T>(work: () => T): { ms: number; result: T } => {
    const startedAt = performance.now()
    const result = work()
    return { ms: performance.now() - startedAt, result }
  }
  const loads = Array.from({ length: LOADS }, () => timed(loadCatalog))
  const items = loads[0]?.result ?? []
  const catalog = { items: () => items, idsOfName: () => [] }
  nearestName(catalog, 'builds its index')
  const names = items.slice(0, NAMES).map(item => `${item.market_hash_name.slice(1)}x`)
  return [
    figureEntry(
      { name: 'loading the catalog', unit: 'ms', better: 'lower' },
      loads.map(({ ms }) => ms),
    ),
    figureEntry(
      { name: 'the nearest name of an unknown one', unit: 'ms', better: 'lower' },
      timed(() => names.map(name => nearestName(catalog, name))).ms / NAMES,
    ),
  ]
}

function questionsOf({ market, size }: Stage): Record<string, HttpQuestion[]> {
  const { itemIds } = market
  const lastPage = Math.floor((size.providers * itemIds.length) / PAGE_ROWS) - 1
  const pages = Array.from({ length: PAGES }, (_, each) => Math.floor((each * lastPage) / PAGES))
  const batches = Array.from({ length: BATCHES }, (_, each) =>
    Array.from({ length: BATCH_ITEMS }, (_, at) => itemIds[(each + at * 7 * BATCHES) % itemIds.length]),
  )
  return {
    'GET /prices, 1,000 rows': pages.map(page => ({ path: `/prices?limit=${PAGE_ROWS}&offset=${page * PAGE_ROWS}` })),
    'POST /prices/batch, 100 items': batches.map(item_ids => ({
      path: '/prices/batch',
      body: JSON.stringify({ item_ids }),
    })),
    'GET /items, all of them': [{ path: '/items' }],
  }
}
