/**
 * How long the costliest accepted input of each operation holds the event loop of the process that answers it.
 *
 * Operations are those that the routes declare; inputs are made of their schemas (costly-inputs.ts). Each is sent alone to a query
 * service and a gateway as they run, over the whole market, the worst of them again: the figure of an input is its median, that of an
 * operation the worst of its accepted inputs. An operation without any fails the run, so a route that is added gets one.
 */
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { loadCatalog } from '#infra/config/catalog.ts'
import { openApiDocument } from '#infra/http/openapi.ts'
import type { Operation } from '#schemas/api/operation.ts'
import { operationsDescribed } from '#test/fixtures/api-routes.ts'
import { largeLedger } from '#test/fixtures/malformed-csv.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type BenchRole, withoutLimits } from '../bench-platform.ts'
import { costlyBodies, costlyInputs, type ValuesByName } from '../costly-inputs.ts'
import { fillPortfolio, manyPhases, storePast } from '../costly-stage.ts'
import { entryOf, median } from '../entry.ts'
import { publishBids } from '../market-load.ts'
import type { Stage } from '../stage.ts'
import { atRest, serveApi } from '../whole-platform.ts'

const PROBE = new URL('../loop-probe.ts', import.meta.url)
const TURNS = 3
/** Of the inputs of an operation those that took longest at first, when much is done for the first time. */
const ASKED_AGAIN = 3
const FILE_BYTES = 5 * 1024 * 1024
const LIMIT_MS = 300_000
/** A stream of events is read for so long. */
const STREAM_MS = 3_000
const SHOWN = 300

/** But for what takes a person's sign-in or the game's platform, and what ends the key that asks. */
const isAsked = ({ group, id, access }: Operation): boolean =>
  group !== 'Sign-in' &&
  group !== 'Inventory' &&
  id !== 'importPortfolioInventory' &&
  id !== 'reissueKey' &&
  access !== 'recent-session'

export const cost: Bench = {
  name: 'cost',
  about: 'how long the costliest accepted input of each operation holds the event loop',
  ownStage: true,
  async run(context) {
    const stage = await context.stage()
    const scene = await openScene(context, stage)
    const found: { name: string; ms: number; input: string }[] = []
    for (const operation of operationsDescribed().filter(isAsked)) {
      const name = `${operation.method.toUpperCase()} ${operation.path}`
      context.say(name)
      const one = { name, ...(await costliest(context, scene, operation)) }
      context.log.warn(one, 'cost')
      found.push(one)
    }
    found.sort((a, b) => b.ms - a.ms)
    return [
      entryOf('cost of a valid request: the longest stretch of the loop', 'ms', found[0]?.ms ?? Number.NaN),
      ...found.map(({ name, ms }) => entryOf(`cost of ${name}`, 'ms', ms)),
    ]
  },
}

interface Scene {
  stage: Stage
  api: Probed
  feed: Probed
  portfolio: string
  owner: string
}

/** A process, and how long its loop was held since that was last asked. */
interface Probed {
  process: BenchRole
  heldMs(): Promise<number>
}

async function openScene(context: BenchContext, stage: Stage): Promise<Scene> {
  const probe = (name: string) => {
    const path = join(stage.config.stateDir, `${name}.sock`)
    const env = { ...withoutLimits(stage), NODE_OPTIONS: `--import=${PROBE.href}`, LOOP_PROBE: path }
    return { env, heldMs: async () => Number(await text(connect(path))) }
  }
  const [atApi, atFeed] = [probe('api'), probe('feed')]
  const refreshes = await publishBids(stage, context.isQuick ? 1_000 : 25_000)
  await stage.judged.applied(refreshes, LIMIT_MS)
  const process = await serveApi(context, stage, atApi.env)
  for (const role of ['provider-health', 'history', 'candles', 'sales', 'market-summary', 'movers'] as const) {
    await (await stage.role(role)).ready(LIMIT_MS)
  }
  context.say('the tables are catching up')
  await stage.caughtUp(['candles', 'history'])
  const feed = await stage.role('feed', atFeed.env)
  await feed.ready(LIMIT_MS)
  const finish = manyPhases()[0] ?? []
  await storePast(context, stage, finish)
  const owner = await stage.newKey()
  const scene = { stage, owner, portfolio: '', feed: { process: feed, ...atFeed }, api: { process, ...atApi } }
  const created = await send(scene, owner, { method: 'post', path: '/portfolio', body: '{"name":"largest"}' })
  const portfolio = JSON.parse(created.body).id as string
  await fillPortfolio(context, stage, portfolio)
  await atRest(context, stage)
  return { ...scene, portfolio }
}

interface Input {
  method: string
  path: string
  query?: Record<string, unknown>
  body?: string | FormData
  isFeed?: boolean
}

async function costliest(
  context: BenchContext,
  scene: Scene,
  operation: Operation,
): Promise<{ ms: number; input: string }> {
  const own = await scene.stage.newKey()
  const key = operation.path.startsWith('/portfolio/:id/') ? scene.owner : own
  const refusals = new Set<string>()
  const heldMs = async (input: Input): Promise<number | undefined> => {
    context.signal.throwIfAborted()
    const path = await pathOf(scene, operation, key)
    const probed = input.isFeed ? scene.feed : scene.api
    await probed.heldMs()
    const { status, body } = await send(scene, key, { ...input, path })
    if (status >= 400) refusals.add(`${status} ${body.slice(0, SHOWN)}`)
    return status < 400 ? await probed.heldMs() : undefined
  }
  const first: { at: number; ms: number }[] = []
  for (const [at, input] of inputsOf(operation, 0).entries()) {
    const ms = await heldMs(input)
    if (ms !== undefined) first.push({ at, ms })
  }
  if (first.length === 0) throw new Error(`no input of ${operation.id} is accepted: ${[...refusals].join('; ')}`)
  const worst = first.sort((a, b) => b.ms - a.ms).slice(0, ASKED_AGAIN)
  const found: { ms: number; input: string }[] = []
  for (const { at, ms } of worst) {
    const turns = [ms]
    for (let turn = 1; turn < TURNS; turn++) turns.push((await heldMs(inputsOf(operation, turn)[at] as Input)) ?? 0)
    found.push({ ms: median(turns), input: JSON.stringify(inputsOf(operation, 0)[at]).slice(0, SHOWN) })
  }
  return found.reduce((one, other) => (other.ms > one.ms ? other : one))
}

const DOCUMENT = openApiDocument(operationsDescribed(), { baseUrl: '' }) as {
  // biome-ignore lint/suspicious/noExplicitAny: what a description may hold
  paths: Record<string, Record<string, any>>
}

function inputsOf({ id, method, path, upload, reply }: Operation, turn: number): Input[] {
  const described = DOCUMENT.paths[`/v1${path.replaceAll(/:(\w+)/g, '{$1}')}`]?.[method]
  const request = { method, path, isFeed: id === 'issueFeedToken' || reply.events !== undefined }
  if (upload) {
    const file = new FormData()
    const { file: bytes } = largeLedger(
      FILE_BYTES,
      ITEMS.slice(turn, turn + 500).map(item => item.market_hash_name),
    )
    file.set(upload.field, new Blob([new Uint8Array(bytes)]), 'ledger.csv')
    return [{ ...request, body: file }]
  }
  const schema = described?.requestBody?.content['application/json']?.schema
  if (schema) return costlyBodies(schema, valuesAt(turn)).map(body => ({ ...request, body: JSON.stringify(body) }))
  const parameters = described?.parameters.filter((one: { in: string }) => one.in === 'query')
  return costlyInputs(parameters, valuesAt(turn)).map(query => ({ ...request, query }))
}

const ITEMS = loadCatalog().filter(item => !item.market_hash_name.includes(','))
const PHASES = manyPhases()

/** Schemas cannot say these. Values differ from turn to turn, so that none is answered from what the turn before it left. */
function valuesAt(turn: number): ValuesByName {
  const phased = (at: number) => PHASES[(turn * 100 + at) % PHASES.length]?.[0]
  const words = ['st', 'er', 'ti', 'ic', 'ck', 'ke', '20', '02', 'ho', 'ol', 'lo', '(h', 'o)', 'an', 'in', 're']
  return {
    item_id: [at => (at === 0 ? PHASES[0]?.[1] : ITEMS[(turn * 100 + at) % ITEMS.length])?.item_id],
    market_hash_name: [
      at => (at === 0 ? PHASES[0]?.[0] : phased(at))?.market_hash_name,
      () => `${'Sticker Holo '.repeat(9)}${turn}`,
    ],
    q: [() => 'a '.repeat(100).trim(), () => words.join(' '), () => 'a'],
    crate: [at => ITEMS.flatMap(({ crates }) => crates)[at * 97] ?? ''],
    item_type: [() => 'sTICKER'],
    currency: [() => ['EUR', 'JPY', 'GBP'][turn]],
    threshold_currency: [() => 'EUR'],
    threshold_value: [at => `0.${1 + at}`],
    start: [() => '2000-01-01', () => '2020-01-01T00:00:00'],
    start_date: [() => '2000-01-01'],
    end: [],
    end_date: [],
    date: [() => '2026-01-02'],
    lookback: [() => `${30 + turn}`, () => '365'],
    from: [() => '2000-01-01'],
    to: [],
    speed: [() => '0'],
    cursor: [],
    token: [],
    url: [() => 'https://receiver.example.com/?chat_id=1'],
    phase: [() => 'Phase 2'],
  }
}

/** The path with the records that it names: the large portfolio, or such as are made for this request. */
async function pathOf(scene: Scene, { path, upload }: Operation, key: string): Promise<string> {
  const known: Record<string, string> = { item_id: String(PHASES[0]?.[1]?.item_id), provider: 'provider_01' }
  // A file has its own: the large one has no room for its rows.
  if (path.startsWith('/portfolio/:id/') && !upload) known.id = scene.portfolio
  let made = ''
  for (const part of path.split('/').slice(1)) {
    const name = part.startsWith(':') ? part.slice(1) : undefined
    made += `/${name === undefined ? part : (known[name] ?? (await createdAt(scene, made, key)))}`
  }
  return made
}

const EXAMPLES: Record<string, string> = {
  items: '{"item_id":1,"quantity":1}',
  transactions: '{"item_id":1,"type":"buy","quantity":1,"price":1,"date":"2026-01-02"}',
  alerts: '{"item_id":1,"kind":"price_below","threshold_value":"1","is_enabled":false}',
  webhooks: '{"label":"a","url":"https://receiver.example.com/"}',
  'sub-keys': '{"name":"a"}',
  portfolio: '{"name":"a"}',
}

/** The id of a record that is made where its kind is made; a delivery is made by trying a webhook. */
async function createdAt(scene: Scene, path: string, key: string): Promise<string> {
  const at = path.endsWith('/deliveries')
    ? `/account/webhooks/${await createdAt(scene, '/account/webhooks', key)}/test`
    : path
  const { status, body } = await send(scene, key, {
    method: 'post',
    path: at,
    body: EXAMPLES[at.split('/').at(-1) ?? ''],
  })
  const answer = status < 300 ? JSON.parse(body) : {}
  const id = answer.id ?? answer.delivery_id ?? answer.webhook?.id ?? answer.key_info?.id
  if (id === undefined) throw new Error(`nothing is made at ${at}: ${status} ${body}`)
  return id
}

async function send(
  scene: Pick<Scene, 'api' | 'feed'>,
  key: string,
  { method, path, query = {}, body, isFeed }: Input,
) {
  const { url: baseUrl } = (isFeed ? scene.feed : scene.api).process
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) for (const one of [value].flat()) search.append(name, String(one))
  const json = typeof body === 'string' ? { 'content-type': 'application/json' } : undefined
  const answer = await fetch(`${baseUrl}${path}?${search}`, {
    method: method.toUpperCase(),
    headers: { authorization: `Bearer ${key}`, ...json },
    ...(body !== undefined && { body }),
    redirect: 'manual',
    signal: isFeed ? AbortSignal.timeout(STREAM_MS) : AbortSignal.timeout(LIMIT_MS),
  })
  // A stream of events goes on until it is left.
  const whole = await answer.text().catch(error => (isFeed ? '' : Promise.reject(error)))
  return { status: answer.status, body: whole }
}
