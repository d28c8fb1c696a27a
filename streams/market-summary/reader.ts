/**
 * The views of market analytics, kept in memory in the form in which they are answered from.
 *
 * Heads are read once a second, the values of a version once; those of arbitrage only while clients ask for it, since
 * they are 14 MB every ten seconds, or more. A view changes as a whole, so a request sees one version; after a
 * failed read the version before stays, whose age the caller judges. Why a copy: filtering 200,000 pairs takes a millisecond here, and a second by reading rows from
 * Redis.
 */
import { promisify } from 'node:util'
import { constants, inflateRaw } from 'node:zlib'
import type { Redis } from '#infra/redis/redis.ts'
import type { Log } from '#infra/runtime/log.ts'
import {
  type ArbitrageColumns,
  type ArbitrageHead,
  arbitrageBytes,
  arbitrageChunkKey,
  arbitrageColumns,
  arbitrageHeadKey,
  parseArbitrageHead,
  parseSummaryHead,
  type SummaryHead,
  summaryChunkKey,
  summaryHeadKey,
  summaryOffsetsKey,
} from './table.ts'

export {
  ARBITRAGE_SNAPSHOT_LIMIT_MS,
  type ArbitrageFees,
  arbitrageAmounts,
  arbitrageFees,
  freshUntil,
} from './arbitrage-amounts.ts'
export { changeSince, marketcapText, percentOf } from './summary-body.ts'
export type { ArbitrageColumns, ExcludedQuotes } from './table.ts'

/** A computed arbitrage snapshot. */
export interface ArbitrageView {
  head: ArbitrageHead
  columns: ArbitrageColumns
}

/** A summary of the market. */
export interface SummaryView {
  head: SummaryHead
  /** The rows' JSON texts, joined by commas, and the same deflated. */
  text: Buffer
  deflated: Buffer
  /** The text of an item's row; undefined when it has none. */
  rowOf(itemId: number): string | undefined
}

/** The newest known versions; undefined until the first came. */
export interface MarketViews {
  /** Reads the snapshot first when it was not requested for a while, which takes a tenth of a second. */
  arbitrage(): Promise<ArbitrageView | undefined>
  summary(): SummaryView | undefined
  stop(): void
}

const EVERY_MS = 1_000
/** How long after the last request for arbitrage its snapshots are still read as they come. */
const WANTED_MS = 60_000

const inflate = promisify(inflateRaw) as (deflated: Buffer, options: object) => Promise<Buffer>

/** A value that a head names is gone: a newer head names others. */
class VersionGone extends Error {}

/** Follows the views; resolves after the first read, whether or not it found any. */
export async function openMarketViews(
  redis: Redis,
  prefix: string,
  log: Log,
  wantedMs = WANTED_MS,
): Promise<MarketViews> {
  let newest: ArbitrageHead | undefined
  let arbitrage: ArbitrageView | undefined
  let summary: SummaryView | undefined
  let isPolling = false
  let wantedUntil = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined
  let reported: string | undefined
  const report = (error: unknown): void => {
    if (error instanceof VersionGone) return
    const { message } = error as Error
    // It is read every second: a form of another version would fill the log.
    if (message !== reported) log.warn({ err: error }, 'market analytics could not be read')
    reported = message
  }
  /** Concurrent reads are coalesced, and a failure is one line in the log. */
  function readNewest(): Promise<void> {
    const read = async (head: ArbitrageHead | undefined): Promise<void> => {
      if (!head) arbitrage = undefined
      else if (head.version !== arbitrage?.head.version) arbitrage = await readArbitrage(redis, prefix, head)
    }
    reading ??= read(newest)
      .catch(report)
      .finally(() => {
        reading = undefined
      })
    return reading
  }
  async function refresh(): Promise<void> {
    const [arbitrageText, summaryText] = await redis.mget(arbitrageHeadKey(prefix), summaryHeadKey(prefix))
    newest = arbitrageText ? parseArbitrageHead(arbitrageText) : undefined
    if (performance.now() < wantedUntil) await readNewest()
    else arbitrage = undefined
    const summaryHead = summaryText ? parseSummaryHead(summaryText) : undefined
    if (!summaryHead) summary = undefined
    else if (summaryHead.version !== summary?.head.version) summary = await readSummary(redis, prefix, summaryHead)
  }
  async function poll(): Promise<void> {
    if (isPolling || redis.status !== 'ready') return
    isPolling = true
    await refresh().then(() => {
      reported = undefined
    }, report)
    isPolling = false
  }
  await poll()
  const timer = setInterval(() => void poll(), EVERY_MS)
  return {
    async arbitrage() {
      wantedUntil = performance.now() + wantedMs
      if (!arbitrage) await readNewest()
      return arbitrage
    },
    summary: () => summary,
    stop: () => clearInterval(timer),
  }
}

/** Copies chunk by chunk into the columns' own memory: at once, 70 MB would keep requests waiting for 50 ms. */
async function readArbitrage(redis: Redis, prefix: string, head: ArbitrageHead): Promise<ArbitrageView> {
  const bytes = new Uint8Array(arbitrageBytes(head.rows))
  let at = 0
  for (let chunk = 0; chunk < head.chunks; chunk++) {
    const part = await readValue(redis, arbitrageChunkKey(head.version, chunk, prefix))
    if (at + part.length > bytes.length) throw new Error('an arbitrage snapshot is longer than its head says')
    bytes.set(part, at)
    at += part.length
  }
  if (at < bytes.length) throw new Error('an arbitrage snapshot is shorter than its head says')
  return { head, columns: arbitrageColumns(head.rows, bytes.buffer) }
}

async function readSummary(redis: Redis, prefix: string, head: SummaryHead): Promise<SummaryView> {
  const deflated = await readChunks(redis, head.body.chunks, chunk => summaryChunkKey(head.version, chunk, prefix))
  const offsets = await readChunks(redis, 1, () => summaryOffsetsKey(head.version, prefix))
  const text = await inflate(deflated, { finishFlush: constants.Z_SYNC_FLUSH })
  if (text.length !== head.body.bytes) throw new Error('the market summary is not as long as its head says')
  const rangesOfItems = new Map<number, [start: number, end: number]>()
  for (let at = 0, start = 0; at < offsets.length; at += 8) {
    const end = offsets.readUInt32LE(at + 4)
    rangesOfItems.set(offsets.readUInt32LE(at), [start, end])
    // The comma between two rows is part of neither.
    start = end + 1
  }
  return {
    head,
    text,
    deflated,
    rowOf(itemId) {
      const range = rangesOfItems.get(itemId)
      return range && text.toString('utf8', range[0], range[1])
    },
  }
}

async function readChunks(redis: Redis, count: number, keyOf: (chunk: number) => string): Promise<Buffer> {
  const chunks: Buffer[] = []
  for (let chunk = 0; chunk < count; chunk++) chunks.push(await readValue(redis, keyOf(chunk)))
  return Buffer.concat(chunks)
}

async function readValue(redis: Redis, key: string): Promise<Buffer> {
  const bytes = await redis.getBuffer(key)
  if (bytes === null) throw new VersionGone()
  return bytes
}
