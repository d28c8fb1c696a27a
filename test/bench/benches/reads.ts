/**
 * Reads of the API against a bare Express route that sends the same bytes, in processes of their own, over 64 kept connections, the same
 * requests in the same order for both, in turns.
 *
 * Prices by item are measured for a few that are asked for again and again, and, while 5,000 changes a second arrive, for twice as many as the
 * query service keeps in memory, one after the other, so that no answer is of a kept item. The clients are in the bench's process, as when
 * these bars were set: in one of their own they let bare Express answer up to three times as often, and the bars would mean something else.
 */
import { ITEMS_KEPT } from '#streams/live-view/reader.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type Entry, entryOf, requireOffered, type Turn } from '../entry.ts'
import { type HttpQuestion, type HttpTarget, load } from '../http-load.ts'
import { smallKeys, whileRefreshing, writeProviders } from '../market-load.ts'
import type { Stage } from '../stage.ts'
import { serveApi } from '../whole-platform.ts'

const SOME_ITEMS = 500
const MANY_ITEMS = 20_000
const PROVIDERS = 20
const ITEMS_OF_A_PROVIDER = 250
const CHANGES_PER_SECOND = 5_000
const JUDGE_LIMIT_MS = 30_000
/** For the live view, once the work has ended. */
const KEEPS_UP_LIMIT_MS = 5_000
const PAGE_ROWS = 1_000
const PAGES = 40
const BATCH_ITEMS = 100
const BATCHES = 40
/** Short ones in close succession: a shared machine's state changes within seconds, for both alike. */
const TURNS = 20
const TURN_MS = 600
/** The engine works for that long on what it has not run before: after 2 s a request still took twice the CPU. */
const WARM_UP_MS = 8_000

export const reads: Bench = {
  name: 'reads',
  about: 'requests a second of prices, pages, batches and the whole catalog, against bare Express with the same bytes',
  ownStage: true,
  async run(context) {
    const stage = await context.stage()
    const many = manyItems(context, stage)
    const keys = smallKeys(PROVIDERS)
    const env = { MARKETLOG_PROVIDERS: writeProviders(stage, keys) }
    const { url: baseUrl } = await serveApi(context, stage, env)
    const headers = { authorization: `Bearer ${await stage.newKey()}` }
    const measure = async (name: string, questions: HttpQuestion[], beside?: Beside): Promise<Entry> => {
      context.say(name)
      const turns = await measureRoute(context, { baseUrl, headers, questions }, beside)
      return entryOf(`${name}: against bare Express`, 'requests/s', turns)
    }
    const entries: Entry[] = []
    for (const [name, questions] of Object.entries(questionsOf(stage, many)))
      entries.push(await measure(name, questions))
    const listings = stage.market.smallListings(keys, ITEMS_OF_A_PROVIDER)
    const { refreshes } = await stage.market.publish(listings, 1)
    await stage.judged.applied(refreshes, JUDGE_LIMIT_MS)
    const everyMs = (ITEMS_OF_A_PROVIDER * 1_000) / CHANGES_PER_SECOND
    const name = 'GET /prices, many items while 5,000 changes a second arrive'
    return [
      ...entries,
      await measure(name, many.map(pricesOf), async turns => {
        const { published, offered, refreshes } = await whileRefreshing(stage, { listings, everyMs, share: 1 }, turns)
        requireOffered('refreshes beside requests', published, offered)
        await stage.judged.applied(refreshes, KEEPS_UP_LIMIT_MS)
        await stage.caughtUp(['live-view'], KEEPS_UP_LIMIT_MS)
      }),
    ]
  },
}

const pricesOf = (itemId: number | undefined): HttpQuestion => ({ path: `/prices?item_id=${itemId}` })

/** Items of which the service keeps half at most; a short run asks for all that it has. */
function manyItems({ isQuick }: BenchContext, { market }: Stage): readonly number[] {
  const { itemIds } = market
  if (isQuick) return itemIds
  if (MANY_ITEMS < 2 * ITEMS_KEPT) throw new Error(`reads: the service keeps ${ITEMS_KEPT} of ${MANY_ITEMS} items`)
  if (itemIds.length < MANY_ITEMS) throw new Error(`reads: ${itemIds.length} of ${MANY_ITEMS} items are listed`)
  return itemIds.slice(0, MANY_ITEMS)
}

function questionsOf({ market, size }: Stage, many: readonly number[]): Record<string, HttpQuestion[]> {
  const { itemIds } = market
  const some = Array.from({ length: SOME_ITEMS }, (_, each) => many[Math.floor((each * many.length) / SOME_ITEMS)])
  const lastPage = Math.floor((size.providers * itemIds.length) / PAGE_ROWS) - 1
  const pages = Array.from({ length: PAGES }, (_, each) => Math.floor((each * lastPage) / PAGES))
  const batches = Array.from({ length: BATCHES }, (_, each) =>
    Array.from({ length: BATCH_ITEMS }, (_, at) => itemIds[(each + at * 7 * BATCHES) % itemIds.length]),
  )
  return {
    'GET /prices, some items': some.map(pricesOf),
    'GET /prices, 1,000 rows': pages.map(page => ({ path: `/prices?limit=${PAGE_ROWS}&offset=${page * PAGE_ROWS}` })),
    'POST /prices/batch, 100 items': batches.map(item_ids => ({
      path: '/prices/batch',
      body: JSON.stringify({ item_ids }),
    })),
    'GET /items, all of them': [{ path: '/items' }],
  }
}

type Beside = (turns: () => Promise<void>) => Promise<void>

async function measureRoute(
  context: BenchContext,
  route: HttpTarget,
  beside: Beside = turns => turns(),
): Promise<Turn[]> {
  const express = context.baseline('bare-express')
  const questions = route.questions.map((question, asked) => ({
    ...question,
    path: `${question.path}${question.path.includes('?') ? '&' : '?'}asked=${asked}`,
  }))
  const ours: HttpTarget = { ...route, questions }
  const bare: HttpTarget = { ...ours, baseUrl: await express.ask<string>('serve', ours) }
  const asked = new Map<HttpTarget, number>()
  /** Each turn begins with the question after the last of the one before. */
  const rateOf = async (target: HttpTarget, ms = TURN_MS): Promise<number> => {
    const first = asked.get(target) ?? 0
    const { requests, seconds } = await load({ ...target, ms, first })
    asked.set(target, first + requests)
    return requests / seconds
  }
  for (const target of [ours, bare]) await rateOf(target, WARM_UP_MS)
  const turns: Turn[] = []
  await beside(async () => {
    for (let turn = 0; turn < (context.isQuick ? 2 : TURNS); turn++) {
      context.signal.throwIfAborted()
      // Each comes first as often: a machine that warms up or tires does so for both.
      const early = turn % 2 === 0 ? undefined : await rateOf(bare)
      turns.push({ value: await rateOf(ours), against: early ?? (await rateOf(bare)) })
    }
  })
  await express.stop()
  return turns
}
