/**
 * Compares candle parts and standing asks in ClickHouse with the changes of the log.
 *
 * The cut is each row's own: a part carries the version of its last change, so it must equal the fold of its bucket's changes
 * up to that one, which must not be older than the last one that the view's position names.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut, noFindings } from '#streams/runner/verify/findings.ts'
import {
  OF_PARTITION,
  type PartitionLog,
  partitionLogs,
  type VersionedChange,
} from '#streams/runner/verify/item-changes.ts'
import { withTables } from '#streams/runner/verify/with-tables.ts'
import type { VerifyTask } from '#streams/runner/view.ts'

interface StoredEdge {
  version: number
  standing: boolean
  micro: number
  quantity: number
  at: number
}

interface StoredPart {
  interval_s: number
  item_id: number
  bucket_s: number
  provider: string
  opening: StoredEdge
  closing: StoredEdge
  low: number
  high: number
  falls: number
}

interface StoredStanding extends StoredEdge {
  item_id: number
  provider: string
}

const INTERVALS = Object.values(CANDLE_INTERVALS)
const DAY_MS = 86_400_000
/** Rows at the edge of their retention may be there or not: whole parts expire. */
const EDGE_DAYS = 32

/** Compares all partitions. */
export const verifyCandles = (task: VerifyTask): Promise<Findings> =>
  withTables(task, async tables => {
    const findings = noFindings()
    for await (const log of partitionLogs(task.access, tables, 'candles')) {
      task.report(`partition ${log.partition}`)
      const asks = log.changes.filter(({ change }) => change.side === 'ask')
      await compareParts(tables, log, asks, findings)
      await compareStanding(tables, log, asks, findings)
    }
    return findings
  })

async function compareParts(
  tables: ClickhouseReader,
  log: PartitionLog,
  asks: readonly VersionedChange[],
  findings: Findings,
): Promise<void> {
  const now = Date.now()
  const changes = new Map<string, VersionedChange[]>()
  for (const placed of asks) {
    const { item_id, provider, seen_at } = placed.change
    for (const { ms, retentionDays } of INTERVALS) {
      const bucket = Math.floor(seen_at / ms) * ms
      if (bucket < now - (retentionDays - Math.min(EDGE_DAYS, retentionDays / 2)) * DAY_MS) continue
      append(changes, `${ms / 1000} ${item_id} ${bucket / 1000} ${provider}`, placed)
    }
  }
  const stored = await tables.rows<StoredPart>(
    `SELECT interval_s, item_id, toUnixTimestamp(bucket) AS bucket_s, provider, min(opening) AS opening,
    max(closing) AS closing, min(low) AS low, max(high) AS high, arraySum(mapValues(maxMap(falls))) AS falls
    FROM ${tables.database}.candle_parts WHERE ${OF_PARTITION} GROUP BY interval_s, item_id, bucket, provider`,
    { partition: log.partition },
  )
  for (const part of stored) {
    const key = `${part.interval_s} ${part.item_id} ${part.bucket_s} ${part.provider}`
    const own = changes.get(key) ?? []
    changes.delete(key)
    const first = own[0]?.version
    if (part.opening.version < log.start) leaveOut(findings, 'rest on records that the log no longer holds')
    else if (part.closing.version >= log.end) leaveOut(findings, CAME_MEANWHILE)
    else if (part.opening.version === 0 && first !== 0) leaveOut(findings, 'rest on history files')
    else if (first === undefined && isOld(part, now)) leaveOut(findings, 'at the end of their retention')
    else compare(findings, `candle_parts ${key}`, textOf(upTo(own, part.closing.version, log)), textOfStored(part))
  }
  for (const [key, own] of changes) {
    if ((own[0]?.version ?? log.reached) < log.reached) {
      compare(findings, `candle_parts ${key}`, textOf(own), undefined)
    }
  }
}

function isOld({ interval_s, bucket_s }: StoredPart, now: number): boolean {
  const interval = INTERVALS.find(({ ms }) => ms === interval_s * 1000)
  return bucket_s * 1000 < now - ((interval?.retentionDays ?? 0) / 2) * DAY_MS
}

async function compareStanding(
  tables: ClickhouseReader,
  log: PartitionLog,
  asks: readonly VersionedChange[],
  findings: Findings,
): Promise<void> {
  const changes = new Map<string, VersionedChange[]>()
  for (const placed of asks) append(changes, `${placed.change.item_id} ${placed.change.provider}`, placed)
  const stored = await tables.rows<StoredStanding>(
    `SELECT item_id, provider, standing, micro, quantity, at, version FROM ${tables.database}.candle_standing FINAL
    WHERE ${OF_PARTITION}`,
    { partition: log.partition },
  )
  for (const row of stored) {
    const key = `${row.item_id} ${row.provider}`
    const own = changes.get(key) ?? []
    changes.delete(key)
    if (row.version < log.start) leaveOut(findings, 'rest on records that the log no longer holds')
    else if (row.version >= log.end) leaveOut(findings, CAME_MEANWHILE)
    else {
      const last = upTo(own, row.version, log).at(-1)
      compare(findings, `candle_standing ${key}`, last && edgeText(closingOf(last)), edgeText(row))
    }
  }
  for (const [key, own] of changes) {
    const last = own.at(-1)
    if (last && (own[0]?.version ?? 0) < log.reached) {
      compare(findings, `candle_standing ${key}`, edgeText(closingOf(last)), undefined)
    }
  }
}

function append(changes: Map<string, VersionedChange[]>, key: string, placed: VersionedChange): void {
  const own = changes.get(key)
  if (own) own.push(placed)
  else changes.set(key, [placed])
}

/** The changes up to a row's own version, and at least those before the view's position. */
const upTo = (
  own: readonly VersionedChange[],
  version: number,
  { reached }: PartitionLog,
): readonly VersionedChange[] => own.filter(change => change.version <= version || change.version < reached)

function textOf(own: readonly VersionedChange[]): string | undefined {
  const [first, last] = [own[0], own.at(-1)]
  if (!first || !last) return undefined
  let [low, high, falls] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0]
  for (const { change } of own) {
    for (const micro of [change.previous_micro_usd, change.price_micro_usd]) {
      if (micro === null) continue
      low = Math.min(low, micro)
      high = Math.max(high, micro)
    }
    falls += Math.max(0, change.previous_quantity - change.quantity)
  }
  return [edgeText(openingOf(first)), edgeText(closingOf(last)), low, high, falls].join(' ')
}

const textOfStored = ({ opening, closing, low, high, falls }: StoredPart): string =>
  [edgeText(opening), edgeText(closing), low, high, falls].join(' ')

function openingOf({ version, change }: VersionedChange): StoredEdge {
  const { previous_micro_usd: found, price_micro_usd: left, previous_quantity, seen_at } = change
  const edge = { version, standing: found !== null, micro: found ?? left ?? 0, at: seen_at }
  return { ...edge, quantity: found === null ? 0 : previous_quantity }
}

function closingOf({ version, change }: VersionedChange): StoredEdge {
  const { previous_micro_usd: found, price_micro_usd: left, quantity, seen_at } = change
  const edge = { version, standing: left !== null, micro: left ?? found ?? 0, at: seen_at }
  return { ...edge, quantity: left === null ? 0 : quantity }
}

const edgeText = ({ version, standing, micro, quantity, at }: StoredEdge): string =>
  `${version}:${standing ? 'at' : 'gone from'} ${micro} x${quantity} @${at}`
