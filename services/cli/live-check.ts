/**
 * Asks a running platform how far it is, and waits until it is ready and its prices are live.
 *
 * Reads only. Every request has a limit, and no answer counts as "not yet".
 */
import { setTimeout as pause } from 'node:timers/promises'
import { loadMarket } from '#infra/config/market.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { VIEWS } from '#streams/views.ts'
import { CommandFailure } from './command-failure.ts'
import type { RoleProcess } from './role-process.ts'
import { waitForViews } from './wait-for-views.ts'

export interface Report {
  kind: 'step' | 'note'
  text: string
}

/** A platform that is starting. */
interface LiveCheck {
  config: PlatformConfig
  processes: readonly RoleProcess[]
  log: Log
  /** Of an account of the tier quant. */
  key: string
  report: (report: Report) => void
  signal: AbortSignal
}

const POLL_MS = 200
/** A call to the API counts against its key's limits. */
const ASK_EVERY_MS = 2_000
const VIEWS_OF_THE_PAST = VIEWS.filter(({ store }) => store === 'clickhouse').map(({ name }) => name)
const VIEWS_LIMIT_MS = 20_000
/** Above what a source may take unless its market says more (`total_timeout_ms`). */
const STUCK_AFTER_MS = 5 * MINUTE_MS

/** Where a process on this machine answers. */
export function originOf(address: string, port: number): string {
  const host = ['0.0.0.0', '::', ''].includes(address) ? '127.0.0.1' : address
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Resolves once all roles are ready. */
export async function untilReady({ config, processes, report, signal }: LiveCheck): Promise<void> {
  await eventually(signal, 'the roles to be ready', POLL_MS, async () => {
    const waiting: string[] = []
    for (const each of processes) {
      const ports = each.ports()
      if (ports === undefined) waiting.push(`${each.group.name} is starting`)
      else {
        const origin = originOf(config.operatorHost, ports.operatorPort)
        waiting.push(...(await askReadiness(origin, each.group.name)))
      }
    }
    if (waiting.length > 0) report({ kind: 'step', text: `starting the roles: ${waiting.join('; ')}` })
    return { isDone: waiting.length === 0, seen: waiting.join('; ') }
  })
}

/**
 * Live: the views reflect what ingest has published until now, and the API lists an ask (a bid or a sale where the market has no
 * asks). Where no source gives anything the platform is up without, and says why. The views of the past get a moment more, so that
 * the first call finds all of the history, but they do not delay the start further.
 */
export async function untilLive({ config, processes, log, key, report, signal }: LiveCheck): Promise<void> {
  const origin = originOf(config.host, config.port)
  const { feeds } = loadMarket(config.market)
  const first = (['ask', 'bid', 'sale'] as const).find(one => feeds.some(({ side }) => side === one)) ?? 'ask'
  const ingest = processes.find(({ group }) => group.roles.includes('ingest'))
  const onProgress = (text: string) => report({ kind: 'step', text: `filling the views: ${text}` })
  // Sales are a view of the past.
  const without = first === 'sale' ? [] : VIEWS_OF_THE_PAST
  await eventually(signal, 'prices to be live', ASK_EVERY_MS, async () => {
    const { operatorPort = 0 } = ingest?.ports() ?? {}
    const asked = await askSources(originOf(config.operatorHost, operatorPort))
    await waitForViews(config, log, { signal, onProgress, without })
    const isLive = await isListed(origin, key, first)
    const seen = `${asked.size} of ${feeds.length} sources have answered`
    report({ kind: 'step', text: `waiting for the first prices: ${seen}` })
    const isDone = isLive || asked.size === feeds.length
    const failed = [...asked.values()].filter(hasAnswered => !hasAnswered).length
    if (isDone && (failed > 0 || !isLive)) {
      const none = isLive ? '' : ', and there is no price yet'
      const why = ingest?.warnings('ingest') ?? ''
      report({ kind: 'note', text: `${failed} of ${feeds.length} sources fail${none}.${why}` })
    }
    return { isDone, seen }
  })
  const limit = AbortSignal.timeout(VIEWS_LIMIT_MS)
  await waitForViews(config, log, { signal: AbortSignal.any([signal, limit]), onProgress }).catch(error => {
    if (signal.aborted || !limit.aborted) throw error
    report({ kind: 'note', text: `${listed(VIEWS_OF_THE_PAST)} are still catching up (\`npx marketlog lag\`)` })
  })
}

/** `candles, history and sales` */
const listed = (names: readonly string[]): string => new Intl.ListFormat('en-GB').format(names)

/** Asks until it is done; gives up when the answer has not changed for a long time. */
async function eventually(
  signal: AbortSignal,
  what: string,
  everyMs: number,
  ask: () => Promise<{ isDone: boolean; seen: string }>,
): Promise<void> {
  let last = ''
  let changedAt = performance.now()
  for (;;) {
    signal.throwIfAborted()
    const { isDone, seen } = await ask()
    if (isDone) return
    if (seen !== last) changedAt = performance.now()
    last = seen
    if (performance.now() - changedAt > STUCK_AFTER_MS) {
      throw new CommandFailure(`waited ${STUCK_AFTER_MS / MINUTE_MS} minutes for ${what}: ${seen}`)
    }
    await pause(everyMs, undefined, { signal })
  }
}

const QUESTION_LIMIT_MS = 3_000

/** `role: reason` of each role of a process that is not ready; `name` names one that does not answer. */
async function askReadiness(origin: string, name: string): Promise<string[]> {
  const answer = await askJson(`${origin}/readyz`)
  if (answer === undefined) return [`${name} is busy`]
  const roles = (answer.body as { roles?: Record<string, string> }).roles ?? {}
  return Object.entries(roles)
    .filter(([, state]) => state !== 'ready')
    .map(([role, state]) => `${role}: ${state}`)
}

/** The sources that ingest has asked since it started, by side and provider: whether one has ever answered. */
async function askSources(operatorOrigin: string): Promise<Map<string, boolean>> {
  const text = (await ask(`${operatorOrigin}/metrics`, response => response.text())) ?? ''
  const counts = text.matchAll(/^marketlog_ingest_refreshes_total\{(provider=".*",side="\w+"),result="(\w+)"/gm)
  const asked = new Map<string, boolean>()
  for (const [, source = '', result] of counts) asked.set(source, asked.get(source) || result === 'completed')
  return asked
}

/** Number of live asks that the API lists; undefined while that is unknown. */
export async function countLiveAsks(origin: string, key: string): Promise<number | undefined> {
  const answer = await askJson(`${origin}/v1/prices?limit=1`, { authorization: `Bearer ${key}` })
  if (answer?.status !== 200) return undefined
  return (answer.body as { pagination?: { total?: number } }).pagination?.total
}

const LISTS = { ask: '/prices', bid: '/bids', sale: '/sales' }

/** Whether the API lists anything of a side. */
async function isListed(origin: string, key: string, side: keyof typeof LISTS): Promise<boolean> {
  const answer = await askJson(`${origin}/v1${LISTS[side]}?limit=1`, { authorization: `Bearer ${key}` })
  return answer?.status === 200 && (answer.body as { items: unknown[] }).items.length > 0
}

const SAMPLE_CENTS = 500

/**
 * The name of an item that sample calls can show: of the first page of bids the one with the most buy orders
 * among those of some worth, which has asks, bids and a history. Undefined when there are no bids.
 */
export async function findSampleItem(origin: string, key: string): Promise<string | undefined> {
  const answer = await askJson(`${origin}/v1/bids?limit=1000`, { authorization: `Bearer ${key}` })
  if (answer?.status !== 200) return undefined
  const rows = (answer.body as { items: { market_hash_name: string; highest_bid: number; num_bids: number }[] }).items
  const rank = (row: (typeof rows)[number]) => (row.highest_bid >= SAMPLE_CENTS ? 1e9 : 0) + row.num_bids
  return rows.toSorted((one, other) => rank(other) - rank(one))[0]?.market_hash_name
}

const askJson = (url: string, headers: Record<string, string> = {}) =>
  ask(url, async response => ({ status: response.status, body: (await response.json()) as unknown }), headers)

async function ask<T>(
  url: string,
  read: (response: Response) => Promise<T>,
  headers: Record<string, string> = {},
): Promise<T | undefined> {
  try {
    return await read(await fetch(url, { headers, signal: AbortSignal.timeout(QUESTION_LIMIT_MS) }))
  } catch {
    return undefined
  }
}
