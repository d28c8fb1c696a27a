/** Asks a running platform how far it is. Reads only; every request has a limit, and no answer counts as "not yet". */
import { setTimeout as pause } from 'node:timers/promises'
import { loadMarket } from '#infra/config/market.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { VIEWS } from '#streams/views.ts'
import { CommandFailure } from './command-failure.ts'
import { waitForViews } from './lag.ts'
import type { Steps } from './progress.ts'
import type { RoleProcess } from './role-process.ts'

interface LiveCheck {
  config: PlatformConfig
  processes: readonly RoleProcess[]
  log: Log
  /** Of an account of the tier quant. */
  key: string
  progress: Steps
  signal: AbortSignal
}

const POLL_MS = 200
/** A call to the API counts against its key's limits. */
const ASK_EVERY_MS = 2_000
const VIEWS_OF_THE_PAST: readonly string[] = VIEWS.filter(({ store }) => store === 'clickhouse').map(({ name }) => name)
const VIEWS_LIMIT_MS = 20_000
/** Above what a source may take unless its market says more (`total_timeout_ms`). */
const STUCK_AFTER_MS = 5 * MINUTE_MS
const QUESTION_LIMIT_MS = 3_000

export function originOf(address: string, port: number): string {
  const host = ['0.0.0.0', '::', ''].includes(address) ? '127.0.0.1' : address
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

export async function untilReady({ config, processes, progress, signal }: LiveCheck): Promise<void> {
  await eventually(signal, 'the roles to be ready', POLL_MS, async () => {
    const states = processes.map(async ({ group, ports }) => {
      const at = ports()
      if (at === undefined) return `${group.name} is starting`
      const answer = await askJson(`${originOf(config.operatorHost, at.operatorPort)}/readyz`)
      if (answer === undefined) return `${group.name} is busy`
      const { roles = {} } = answer.body as { roles?: Record<string, string> }
      return Object.entries(roles).flatMap(([role, state]) => (state === 'ready' ? [] : [`${role}: ${state}`]))
    })
    const seen = (await Promise.all(states)).flat().join('; ')
    if (seen) progress.step(`starting the roles: ${seen}`)
    return { isDone: seen === '', seen }
  })
}

/**
 * Live: the views reflect what ingest has published until now, and the API lists an ask (a bid or a sale where the market has no
 * asks). Where no source gives anything the platform is up without, and says why. The views of the past get a moment more, so that
 * the first call finds all of the history, but they do not delay the start further.
 */
export async function untilLive({ config, processes, log, key, progress, signal }: LiveCheck): Promise<void> {
  const origin = originOf(config.host, config.port)
  const { feeds } = loadMarket(config.market)
  const first = (['ask', 'bid', 'sale'] as const).find(one => feeds.some(({ side }) => side === one)) ?? 'ask'
  const ingest = processes.find(({ group }) => group.roles.includes('ingest'))
  const onProgress = (text: string) => progress.step(`filling the views: ${text}`)
  // Sales are a view of the past.
  const isAwaited = (group: string) => first === 'sale' || !VIEWS_OF_THE_PAST.includes(group)
  await eventually(signal, 'prices to be live', ASK_EVERY_MS, async () => {
    const sources = await askSources(originOf(config.operatorHost, ingest?.ports()?.operatorPort ?? 0))
    await waitForViews(config, log, { signal, onProgress, isAwaited })
    const list = { ask: 'prices', bid: 'bids', sale: 'sales' }[first]
    const isLive = (await askList(`${origin}/v1/${list}?limit=1`, key)).length > 0
    const seen = `${sources.size} of ${feeds.length} sources have answered`
    progress.step(`waiting for the first prices: ${seen}`)
    const isDone = isLive || sources.size === feeds.length
    const failed = [...sources.values()].filter(hasAnswered => !hasAnswered).length
    if (isDone && (failed > 0 || !isLive)) {
      const none = isLive ? '' : ', and there is no price yet'
      progress.note(`${failed} of ${feeds.length} sources fail${none}.${ingest?.warnings('ingest') ?? ''}`)
    }
    return { isDone, seen }
  })
  const limit = AbortSignal.timeout(VIEWS_LIMIT_MS)
  await waitForViews(config, log, { signal: AbortSignal.any([signal, limit]), onProgress }).catch(error => {
    if (signal.aborted || !limit.aborted) throw error
    progress.note(`${VIEWS_OF_THE_PAST.join(', ')} are still catching up (\`npx marketlog lag\`)`)
  })
}

/** The sources that ingest has asked since it started, by side and provider: whether one has ever answered. */
async function askSources(operatorOrigin: string): Promise<Map<string, boolean>> {
  const text = (await ask(`${operatorOrigin}/metrics`, response => response.text())) ?? ''
  const counts = text.matchAll(/^marketlog_ingest_refreshes_total\{(provider=".*",side="\w+"),result="(\w+)"/gm)
  const sources = new Map<string, boolean>()
  for (const [, source = '', result] of counts) sources.set(source, sources.get(source) || result === 'completed')
  return sources
}

/** Asks until it is done; gives up when the answer has not changed for a long time. */
async function eventually(
  signal: AbortSignal,
  what: string,
  everyMs: number,
  askOnce: () => Promise<{ isDone: boolean; seen: string }>,
): Promise<void> {
  let last = ''
  let changedAt = performance.now()
  for (;;) {
    signal.throwIfAborted()
    const { isDone, seen } = await askOnce()
    if (isDone) return
    if (seen !== last) changedAt = performance.now()
    last = seen
    if (performance.now() - changedAt > STUCK_AFTER_MS) {
      throw new CommandFailure(`waited ${STUCK_AFTER_MS / MINUTE_MS} minutes for ${what}: ${seen}`)
    }
    await pause(everyMs, undefined, { signal })
  }
}

/** The items of a page of the API; none while it does not answer. */
async function askList(url: string, key: string): Promise<unknown[]> {
  const answer = await askJson(url, { authorization: `Bearer ${key}` })
  return answer?.status === 200 ? (answer.body as { items: unknown[] }).items : []
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
