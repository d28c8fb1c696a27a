/**
 * Computes the movers and writes them to Redis. Sole writer of `{movers}:*`.
 *
 * A version is written whole beside the one that is read, then the head names it, in one step on a condition: of the role that it
 * still holds the lease, of a rebuild that the head is as it was read. So a repeat is another version with the same rows, and a
 * process that was frozen or killed changes nothing. What a window's start does not move with is read once for each start; it
 * is read again when another process has written meanwhile. Asks are read before parts, which then hold their changes too.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type ClickhouseReader, openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { publishGuarded } from '#infra/redis/guarded-publish.ts'
import { Fenced } from '#infra/redis/guarded-write.ts'
import { closeRedis, openRedis, type ViewStore } from '#infra/redis/redis.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { type ListedAsk, readCompositesAt, readFallenUnits, readListedAsks } from '#streams/candles/reader.ts'
import { isDown, openHealthReader } from '#streams/provider-health/reader.ts'
import { leasedRole } from '#streams/runner/leased-role.ts'
import type { RebuildTask } from '#streams/runner/view.ts'
import { openWholeTables } from '#streams/runner/whole-tables.ts'
import { boundsOf, findMovers } from './step.ts'
import {
  encodeMovers,
  MOVERS_WINDOWS,
  type Mover,
  type MoversHead,
  type MoversWindow,
  moversHeadKey,
  moversLeaseKey,
  moversRowsKey,
  WINDOW_NAMES,
  type WindowHead,
} from './table.ts'

/** What the movers are computed of, and where they are written. */
interface MoversParts extends ViewStore {
  config: PlatformConfig
  clickhouse: ClickhouseReader
  /** On what condition a version replaces the one that a head names. */
  guardOf(headText: string | null): { key: string; expected: string | null }
}

/** Writes versions. */
interface MoversWriter {
  /** Computes and writes the movers of a moment; resolves with the number of listed items; without any, nothing is written. */
  write(asOf: Instant): Promise<number>
}

/** What is read once for each start of a window. */
interface WindowPast extends Omit<WindowHead, 'rows'> {
  before: ReadonlyMap<number, MicroUsd>
  /** Units up to `settled`. */
  units: ReadonlyMap<number, readonly number[]>
}

const NAME = 'movers'
/** A third of the 30 seconds that a snapshot may be old. */
const PACE = { everyMs: 10_000, atMostMs: 20_000 }
const READ_LIMIT_MS = 90_000
/** Of the parts that are summed each time. */
const { ms: RECENT_INTERVAL_MS } = CANDLE_INTERVALS['5m']
/** How long a replaced version stays, and how long one may wait to be named. */
const REPLACED_TTL_MS = 60_000
const UNNAMED_TTL_MS = 120_000
/** The role writes every ten seconds, a rebuild takes less; the first try reads what the others use. */
const REBUILD_TRIES = 5
const REBUILD_PAUSE_MS = 100

/** Starts the role. */
export const start = leasedRole<MoversWriter>({
  name: NAME,
  leaseKey: moversLeaseKey,
  async open({ context: { config }, redis, clickhouse, lease }) {
    const guardOf = () => ({ key: lease.key, expected: lease.token })
    return async () => openMovers({ config, redis, prefix: config.namespace, clickhouse, guardOf })
  },
  tasks: [{ view: NAME, pace: PACE, compute: (movers, asOf) => movers.write(asOf) }],
})

/** Computes the movers of now from nothing and switches to them; the role then begins from nothing too. */
export async function rebuildMovers({ config, log, onProgress }: RebuildTask): Promise<object> {
  const prefix = config.namespace
  const redis = await openRedis(config, { name: `${prefix}rebuild`, log })
  const options = { database: databaseName(prefix), name: 'marketlog-rebuild', readLimitMs: READ_LIMIT_MS }
  const clickhouse = openWholeTables(openReader(config.servers.clickhouse, options))
  const guardOf = (expected: string | null) => ({ key: moversHeadKey(prefix), expected })
  const movers = openMovers({ config, redis, prefix, clickhouse, guardOf })
  try {
    for (let tries = 0; tries < REBUILD_TRIES; tries++) {
      onProgress('computing')
      try {
        const items = await movers.write(Date.now())
        if (items === 0) throw new Error('no ask is listed; rebuild candles first')
        return { items }
      } catch (error) {
        if (!(error instanceof Fenced)) throw error
        await pause(REBUILD_PAUSE_MS)
      }
    }
    throw new Error('the role wrote each time while the movers were computed; try again')
  } finally {
    await clickhouse.close()
    await closeRedis(redis)
  }
}

function openMovers(parts: MoversParts): MoversWriter {
  const { config, redis, prefix, clickhouse } = parts
  const { all } = config.providersFile ? loadProviders(config.providersFile) : loadProviders()
  const health = openHealthReader(redis, prefix)
  const pasts = new Map<MoversWindow, WindowPast>()
  let written: string | undefined
  const pastOf = async (window: MoversWindow, asOf: Instant, next: number[]): Promise<WindowPast> => {
    const bounds = boundsOf(window, asOf)
    const known = pasts.get(window)
    if (known?.since === bounds.since) return known
    const past = { ...bounds, next, ...(await readPast(clickhouse, window, bounds)) }
    pasts.set(window, past)
    return past
  }
  return {
    async write(asOf) {
      const headText = await redis.get(moversHeadKey(prefix))
      const current = headText === null ? undefined : (JSON.parse(headText) as MoversHead)
      if (written !== undefined && written !== current?.version) pasts.clear()
      const known = await health.readAll()
      const down = all.flatMap(({ key, refresh_interval_ms }) =>
        isDown(refresh_interval_ms, known.get(key), asOf) ? [key] : [],
      )
      const asks = await readListedAsks(clickhouse, down)
      const listed = asks.filter(({ lowest }) => lowest > 0).length
      if (listed === 0) return 0
      const next = nextOffsets(asks)
      const found: WindowPast[] = []
      for (const window of WINDOW_NAMES) found.push(await pastOf(window, asOf, next))
      const starts = found.map(({ settled }) => settled)
      const recent = await readFallenUnits(clickhouse, { intervalMs: RECENT_INTERVAL_MS, starts })
      const rows = found.map(({ before, units }, i) => {
        const unitsOf = (itemId: number): number => (units.get(itemId)?.[0] ?? 0) + (recent.get(itemId)?.[i] ?? 0)
        return findMovers(asks, { before, units: unitsOf })
      })
      const heads = found.map(({ since, settled, next }, i) => {
        const count = rows[i]?.length ?? 0
        return [WINDOW_NAMES[i], { since, settled, next, rows: count } satisfies WindowHead]
      })
      const head = { version: randomUUID(), as_of: asOf, down, next, windows: Object.fromEntries(heads) }
      await publish(parts, { text: headText, version: current?.version }, head, rows)
      written = head.version
      return listed
    },
  }
}

/** Writes the rows of a version, then has a head that names them replace the one that was read. */
async function publish(
  { redis, prefix, guardOf }: MoversParts,
  replaced: { text: string | null; version: string | undefined },
  head: MoversHead,
  rows: readonly (readonly Mover[])[],
): Promise<void> {
  const key = moversHeadKey(prefix)
  const keysOf = (version: string): string[] => WINDOW_NAMES.map(window => moversRowsKey(version, window, prefix))
  const named = keysOf(head.version)
  for (const [i, name] of named.entries()) await redis.set(name, encodeMovers(rows[i] ?? []), 'PX', UNNAMED_TTL_MS)
  const published = await publishGuarded(redis, {
    guards: [guardOf(replaced.text)],
    key,
    text: JSON.stringify(head),
    named,
    replaced: replaced.version === undefined ? [] : keysOf(replaced.version),
    replacedTtlMs: REPLACED_TTL_MS,
  })
  if (!published) throw new Fenced(key)
}

async function readPast(
  clickhouse: ClickhouseReader,
  window: MoversWindow,
  { since, settled }: { since: Instant; settled: Instant },
): Promise<Pick<WindowPast, 'before' | 'units'>> {
  const { bucketMs: intervalMs } = MOVERS_WINDOWS[window]
  return {
    before: await readCompositesAt(clickhouse, since, intervalMs),
    units:
      since < settled ? await readFallenUnits(clickhouse, { intervalMs, starts: [since], end: settled }) : new Map(),
  }
}

/** By partition of market.book-changes, the next offset after what some asks reflect. */
function nextOffsets(asks: readonly ListedAsk[]): number[] {
  const next = Array<number>(ITEM_PARTITIONS).fill(0)
  for (const { item_id, newest } of asks) {
    const partition = partitionOfItem(item_id)
    next[partition] = Math.max(next[partition] as number, newest + 1)
  }
  return next
}
