/**
 * Writes the views of market analytics to Redis: the values of a version first, then the head that names it.
 *
 * Sole writer of `{market}:arbitrage:*` and `{market}:summary:*`. Values are written with an expiry that the head's
 * publication lifts, so a writer that dies in between leaves nothing behind. The publication is guarded by the lease:
 * a writer that was paused while another took over changes nothing. Writing the same summary again is a new
 * version with the same content.
 */
import { randomUUID } from 'node:crypto'
import { publishGuarded } from '#infra/redis/guarded-publish.ts'
import { Fenced } from '#infra/redis/guarded-write.ts'
import type { Lease } from '#infra/redis/lease.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { ArbitrageSnapshot } from './arbitrage.ts'
import type { SummaryBody } from './summary-body.ts'
import {
  type ArbitrageHead,
  arbitrageChunkKey,
  arbitrageHeadKey,
  CHUNK_BYTES,
  columnBytes,
  MARKET_FORMAT,
  REPLACED_TTL_MS,
  type SummaryHead,
  summaryChunkKey,
  summaryHeadKey,
  summaryOffsetsKey,
} from './table.ts'

/** Writes the views of a namespace. */
export interface MarketViewWriter {
  writeArbitrage(snapshot: ArbitrageSnapshot): Promise<void>
  writeSummary(summary: SummaryBody): Promise<void>
}

/** Values that are written but not yet named go after this long. */
const UNNAMED_TTL_MS = 120_000

/** Opens the writer of a lease's holder. */
export function openViewWriter(redis: Redis, lease: Lease, prefix: string): MarketViewWriter {
  const publish = async (headKey: string, head: object, values: Map<string, Buffer>, replaced: readonly string[]) => {
    for (const [key, bytes] of values) await redis.set(key, bytes, 'PX', UNNAMED_TTL_MS)
    const published = await publishGuarded(redis, {
      guards: [{ key: lease.key, expected: lease.token }],
      key: headKey,
      text: JSON.stringify(head),
      named: [...values.keys()],
      replaced,
      replacedTtlMs: REPLACED_TTL_MS,
    })
    if (!published) throw new Fenced(headKey)
  }
  const readHead = async <T>(key: string): Promise<T | undefined> => {
    const text = await redis.get(key)
    return text === null ? undefined : (JSON.parse(text) as T)
  }
  return {
    async writeArbitrage({ asOf, providers, columns, excluded }) {
      const before = await readHead<ArbitrageHead>(arbitrageHeadKey(prefix))
      const version = randomUUID()
      const chunks = cut(Buffer.from(columnBytes(columns)))
      const head: ArbitrageHead = {
        format: MARKET_FORMAT,
        version,
        as_of: asOf,
        rows: columns.rows,
        chunks: chunks.length,
        providers: [...providers],
        excluded,
      }
      const values = new Map(chunks.map((chunk, i) => [arbitrageChunkKey(version, i, prefix), chunk]))
      const replaced = keysOf(before?.chunks ?? 0, i => arbitrageChunkKey(before?.version ?? '', i, prefix))
      await publish(arbitrageHeadKey(prefix), head, values, replaced)
    },
    async writeSummary({ asOf, rows, deflated, bytes, crc, offsets, indexes }) {
      const before = await readHead<SummaryHead>(summaryHeadKey(prefix))
      const version = randomUUID()
      const chunks = cut(deflated)
      const head: SummaryHead = {
        format: MARKET_FORMAT,
        version,
        as_of: asOf,
        rows,
        body: { bytes, crc, chunks: chunks.length },
        indexes,
      }
      const values = new Map(chunks.map((chunk, i) => [summaryChunkKey(version, i, prefix), chunk]))
      values.set(summaryOffsetsKey(version, prefix), offsets)
      const replaced = before
        ? [
            summaryOffsetsKey(before.version, prefix),
            ...keysOf(before.body.chunks, i => summaryChunkKey(before.version, i, prefix)),
          ]
        : []
      await publish(summaryHeadKey(prefix), head, values, replaced)
    },
  }
}

const keysOf = (count: number, keyOf: (i: number) => string): string[] =>
  Array.from({ length: count }, (_, i) => keyOf(i))

function cut(bytes: Buffer): Buffer[] {
  return keysOf(Math.ceil(bytes.length / CHUNK_BYTES), String).map((_, i) =>
    bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES),
  )
}
