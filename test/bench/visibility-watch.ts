/**
 * The two sights of a change: a client of the feed, and a client that asks GET /prices until it sees it.
 *
 * Both compare the wall clock with the observation's own time; publisher and watcher share the machine's
 * clock. Invariant: every change counts in its percentile; one that has not come when the limit is over counts
 * as having taken that long.
 */
import { Agent, get } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'

/** Latencies of changes seen on a feed. */
export interface FeedWatch {
  /** Milliseconds from observation to arrival, one for each change. */
  readonly latenciesMs: readonly number[]
  close(): void
}

const FRAME_END = '\n\n'
/** Adds at most so much. Twenty probes begin each second: at 5 ms, half a second to wait makes 2,000 requests a second. */
const POLL_MS = 25
const agent = new Agent({ keepAlive: true, maxSockets: 64 })

interface ChangedEvent {
  provider: string
  seen_at: string
  items: unknown[]
}

/** Listens to the feed of prices; resolves when the feed says that it is ready. Counts changes of some providers. */
export async function watchFeed(baseUrl: string, key: string, providers: readonly string[]): Promise<FeedWatch> {
  const wanted = new Set(providers)
  const latenciesMs: number[] = []
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  const take = (frame: string, now: number): void => {
    const event = /^event: (.*)$/m.exec(frame)?.[1]
    if (event === 'ready') resolve()
    if (event !== 'prices.changed') return
    const data = JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? '') as ChangedEvent
    if (!wanted.has(data.provider)) return
    const latencyMs = now - Date.parse(data.seen_at)
    for (const _ of data.items) latenciesMs.push(latencyMs)
  }
  const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' }
  const request = get(`${baseUrl}/feed/prices`, { headers, agent: false }, response => {
    if (response.statusCode !== 200) reject(new Error(`the feed answered ${response.statusCode}`))
    let text = ''
    response.setEncoding('utf8').on('data', (chunk: string) => {
      const now = Date.now()
      text += chunk
      for (let end = text.indexOf(FRAME_END); end >= 0; end = text.indexOf(FRAME_END)) {
        take(text.slice(0, end), now)
        text = text.slice(end + FRAME_END.length)
      }
    })
  }).on('error', reject)
  await ready
  return { latenciesMs, close: () => void request.destroy() }
}

/** What to wait for in GET /prices. */
export interface PriceProbe {
  provider: string
  itemId: number
  observedAt: number
}

/** Asks until the row shows the observation, or the limit is over; resolves with milliseconds from observation to then. */
export async function untilVisible(baseUrl: string, key: string, probe: PriceProbe, limitMs: number): Promise<number> {
  const url = `${baseUrl}/prices?item_id=${probe.itemId}&providers=${probe.provider}`
  for (;;) {
    const { items } = await askJson<{ items: { timestamp: string }[] }>(url, key)
    const waitedMs = Date.now() - probe.observedAt
    if (waitedMs > limitMs || Date.parse(items[0]?.timestamp ?? '') >= probe.observedAt) return waitedMs
    await pause(POLL_MS)
  }
}

function askJson<T>(url: string, key: string): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  get(url, { agent, headers: { authorization: `Bearer ${key}` } }, response => {
    let text = ''
    response
      .setEncoding('utf8')
      .on('data', chunk => {
        text += chunk
      })
      .on('end', () => {
        if (response.statusCode === 200) resolve(JSON.parse(text))
        else reject(new Error(`${url} answered ${response.statusCode}: ${text}`))
      })
  }).on('error', reject)
  return promise
}
