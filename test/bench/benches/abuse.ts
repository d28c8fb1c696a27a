/**
 * What 200 hostile clients cost good ones and the processes: a query service and a gateway as they run, with the limits that are built in, but
 * for good keys, which may send more than a key of any tier.
 *
 * Good ones ask for prices at a steady pace, and others use what hostile ones attack; nobody of all these may be refused. First they are
 * alone, then beside hostile ones of every kind (hostile-clients.ts) for a minute. A run fails in which a hostile kind sent nothing.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { residentMibOf } from '#test/harness/process-figures.ts'
import { openSse } from '#test/harness/sse-client.ts'
import type { Baseline } from '../baseline.ts'
import type { HostileCrowd, HostileSeen } from '../baselines/hostile-clients.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { askAs, type BenchRole, makeKeys, withoutLimits } from '../bench-platform.ts'
import { type Entry, entryOf, median, worst } from '../entry.ts'
import type { HttpLoad, LoadSeen } from '../http-load.ts'
import type { Stage } from '../stage.ts'
import { atRest, serveApi } from '../whole-platform.ts'

const CLIENTS = 200
const WINDOW_SECONDS = 5
/** Of prices, of all good clients together. */
const PER_SECOND = 500
const ITEMS = 500
const WINDOWS = { quick: { alone: 1, beside: 2 }, full: { alone: 4, beside: 12 } }
/** A hundred thousand in five minutes. */
const BAD_KEYS_PER_SECOND = 334
/** Of each ledger whose performance hostile ones ask for. */
const TRADES = 20_000
const OTHERS_EVERY_MS = 1_000
const LOOK_EVERY_MS = 500
/** Longest that one of the others waits. */
const OTHERS_LIMIT_MS = 60_000
const CSV = 'date,type,item_id,quantity,price\r\n2026-01-02,buy,1,1,100\r\n'

export const abuse: Bench = {
  name: 'abuse',
  about: 'what 200 hostile clients cost good ones, and the processes',
  ownStage: true,
  async run(context) {
    const stage = await context.stage()
    const env = withoutLimits(stage)
    const api = await serveApi(context, stage, env)
    const feed = await stage.role('feed', env)
    await feed.ready()
    await atRest(context, stage)
    const [good, hostile] = [context.baseline('http-clients'), context.baseline('hostile-clients')]
    return measure(context, { stage, api, feed, good, hostile })
  },
}

interface Scene {
  stage: Stage
  api: BenchRole
  feed: BenchRole
  good: Baseline
  hostile: Baseline
}

async function measure(context: BenchContext, scene: Scene): Promise<Entry[]> {
  const { stage, api, feed, hostile } = scene
  const windows = WINDOWS[context.isQuick ? 'quick' : 'full']
  const [key, other] = (await makeKeys(stage, 2)) as [string, string]
  const crowd = await hostileCrowd(context, scene)
  const phase = (count: number, what: string) => goodWindows(context, scene, { key, count, what })
  const others = await openOthers(scene, other)
  await phase(2, 'warming up')
  const before = await phase(windows.alone, 'good ones alone')
  const stopLooking = lookAtMemory([api, feed])
  const kinds = await hostile.ask<string[]>('begin', crowd)
  const beside = await phase(windows.beside, 'beside hostile ones')
  const [apiMib, feedMib] = stopLooking() as [number, number]
  const refusedOthers = await others.stop()
  const met = await hostile.ask<HostileSeen>('seen', null)
  context.log.warn({ before, beside, met, refusedOthers, asked: others.asked() }, 'abuse')
  const idle = kinds.filter(kind => !(met.requests[kind] || met.connections[kind]))
  if (idle.length > 0) throw new Error(`abuse: nothing was sent by ${idle.join(', ')}`)
  const refused = [...before, ...beside].flatMap(one => one.refused)
  const against = median(before.map(({ p99Ms }) => p99Ms))
  const turns = beside.map(({ p99Ms }) => ({ value: p99Ms, against }))
  return [
    entryOf('abuse: p99 of good GET /prices, against alone', 'ms', turns),
    entryOf('abuse: good requests refused', 'requests', refused.length + refusedOthers.length),
    entryOf('abuse: most memory of api', 'MiB', apiMib),
    entryOf('abuse: most memory of feed', 'MiB', feedMib),
  ]
}

async function goodWindows(
  { say, signal, log }: BenchContext,
  { stage, api, good }: Scene,
  { key, count, what }: { key: string; count: number; what: string },
): Promise<LoadSeen[]> {
  const load: HttpLoad = {
    baseUrl: api.url,
    headers: { authorization: `Bearer ${key}` },
    questions: stage.market.itemIds.slice(0, ITEMS).map(id => ({ path: `/prices?item_id=${id}` })),
    perSecond: PER_SECOND,
    ms: WINDOW_SECONDS * 1_000,
  }
  const seen: LoadSeen[] = []
  for (let window = 0; window < count; window++) {
    signal.throwIfAborted()
    say(`${what} (${window + 1} of ${count})`)
    seen.push(await good.ask<LoadSeen>('load', load))
    log.info({ what, window, seen: seen.at(-1) }, 'abuse')
  }
  return seen
}

/** Keys and portfolios of the hostile ones, some of them with ledgers that are long. */
async function hostileCrowd(context: BenchContext, { stage, api, feed }: Scene): Promise<HostileCrowd> {
  context.say('making hostile accounts')
  const [free, quant] = [await makeKeys(stage, CLIENTS, 'free'), await makeKeys(stage, CLIENTS, 'quant')]
  const portfolios: string[] = []
  for (const key of free) portfolios.push(await newPortfolio(api, key))
  await stage.openDatabase({ statementLimitMs: 60_000 }).rows(
    `INSERT INTO portfolio_transactions (portfolio_id, item_id, type, quantity, price, currency, date, created_at, updated_at)
    SELECT id::uuid, 1 + n % 50, 'buy', 1, 100, 'USD', date '2026-01-01' + n % 100, now(), now()
    FROM unnest($1::text[]) id, generate_series(1, $2) n`,
    [portfolios.filter((_, at) => at % KINDS === ALERTS_AT), TRADES],
  )
  const [apiPort, feedPort] = [api.port, feed.port]
  return { apiPort, feedPort, clients: CLIENTS, free, quant, portfolios, badKeysPerSecond: BAD_KEYS_PER_SECOND }
}

/** The kinds of clients, and the place of the one that asks for performances. */
const [KINDS, ALERTS_AT] = [11, 4]

const newPortfolio = async ({ url }: BenchRole, key: string): Promise<string> =>
  JSON.parse(await askAs(key, `${url}/portfolio`, { method: 'POST', body: '{"name":"any"}' })).id

/** One of each kind of good client but prices, each again and again; `stop` gives what was refused. */
async function openOthers({ api, feed }: Scene, key: string) {
  const ending = new AbortController()
  const headers = { authorization: `Bearer ${key}` }
  const id = await newPortfolio(api, key)
  const stream = await openSse(`${feed.url}/feed/prices?item_ids=1`, { key })
  const refused: string[] = stream.status === 200 ? [] : [`live feed ${stream.status}`]
  const file = () => {
    const form = new FormData()
    form.set('file', new Blob([CSV]), 'a.csv')
    return form
  }
  const ask = (url: string, more: RequestInit = {}) =>
    fetch(url, { headers, signal: AbortSignal.timeout(OTHERS_LIMIT_MS), ...more })
  const asks: Record<string, () => Promise<Response>> = {
    import: () => ask(`${api.url}/portfolio/${id}/import/csv`, { method: 'POST', body: file() }),
    search: () => ask(`${api.url}/account/alerts?search=a`),
    performance: () => ask(`${api.url}/portfolio/${id}/performance`),
    'bulk stream': () => ask(`${api.url}/prices?providers=provider_01`, { method: 'POST' }),
    replay: () => {
      const from = new Date(Date.now() - 1_000).toISOString()
      return ask(`${feed.url}/feed/replay/prices?from=${from}&speed=0`)
    },
  }
  let asked = 0
  const work = Object.entries(asks).map(async ([what, request]) => {
    while (!ending.signal.aborted) {
      const answer = await request().catch((error: Error) => error)
      if (answer instanceof Error) refused.push(`${what}: ${answer.message}`)
      else {
        const ending = await (answer.ok ? readAway(answer) : answer.text()).catch((error: Error) => error.message)
        if (ending !== '') refused.push(`${what}: ${answer.status} ${ending.slice(0, 200)}`)
      }
      asked += 1
      await pause(OTHERS_EVERY_MS)
    }
  })
  return {
    asked: () => asked,
    async stop(): Promise<string[]> {
      ending.abort()
      await Promise.all(work)
      if (stream.hasEnded()) refused.push('the live feed was ended')
      stream.close()
      return refused
    },
  }
}

/** Reads an answer without keeping it; what is measured is not to wait for this process. */
async function readAway({ body }: Response): Promise<string> {
  for await (const _ of body ?? []);
  return ''
}

/** The most memory of some processes, from now until it is asked for. */
function lookAtMemory(roles: readonly BenchRole[]): () => number[] {
  const looks = roles.map(({ pid }) => [residentMibOf(pid)])
  const timer = setInterval(() => {
    roles.forEach(({ pid }, at) => void looks[at]?.push(residentMibOf(pid)))
  }, LOOK_EVERY_MS)
  return () => {
    clearInterval(timer)
    return looks.map(worst)
  }
}
