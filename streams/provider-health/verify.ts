/**
 * Compares the health of each provider in Redis with the verdicts of the log.
 *
 * The cut is the view's own position, read in one transaction with it. Of each side only the verdicts from the last applied
 * one on are kept and gone through at the end. Where the log no longer begins at its first record, a provider is compared whose
 * stored sides all have an applied verdict in it; nothing before that one matters.
 */
import { eventOf } from '#infra/kafka/codec.ts'
import { type LogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { parsePosition } from '#streams/runner/positions.ts'
import { compare, type Findings, leaveOut, noFindings } from '#streams/runner/verify/findings.ts'
import type { VerifyTask } from '#streams/runner/view.ts'
import { decodeHealth, healthKey, healthPositionKey, type StoredHealth } from './table.ts'

/** What the log says of one side. */
interface SideVerdicts {
  completedAt: number | null
  /** The last applied verdict, where there is one, and all after it. */
  latest: RefreshJudged[]
}

/** What the log says of one provider. */
interface ProviderVerdicts {
  sides: Partial<Record<Side, SideVerdicts>>
  checkedAt: number
}

const SIDES: readonly Side[] = ['ask', 'bid']

/** Compares all providers. */
export async function verifyHealth({ config, log, access, report }: VerifyTask): Promise<Findings> {
  const findings = noFindings()
  const { next, stored } = await readHealth(config, log)
  if (next === undefined) {
    compare(findings, 'position', 'a position', undefined)
    return findings
  }
  report('reading the log')
  const { start, verdicts } = await readVerdicts(access, next)
  for (const provider of new Set([...verdicts.keys(), ...stored.keys()])) {
    const [seen, found] = [verdicts.get(provider), stored.get(provider)]
    const isWhole = start === 0 || isCovered(found, seen)
    if (isWhole) compare(findings, provider, seen && textOf(healthOf(seen)), found && textOf(found))
    else leaveOut(findings, 'rest on records that the log no longer holds')
  }
  return findings
}

async function readHealth(
  config: VerifyTask['config'],
  log: VerifyTask['log'],
): Promise<{ next: number | undefined; stored: Map<string, StoredHealth> }> {
  const { namespace } = config
  const redis = await openRedis(config, { name: `${namespace}verify`, log })
  try {
    const answers = (await redis.multi().get(healthPositionKey(namespace)).hgetall(healthKey(namespace)).exec()) ?? []
    for (const [error] of answers) if (error) throw error
    const [text, texts] = answers.map(([, answer]) => answer) as [string | null, Record<string, string>]
    const stored = Object.entries(texts).map(([provider, row]) => [provider, decodeHealth(row)] as const)
    return { next: parsePosition(text)?.next, stored: new Map(stored) }
  } finally {
    await closeRedis(redis)
  }
}

async function readVerdicts(
  access: LogAccess,
  next: number,
): Promise<{ start: number; verdicts: Map<string, ProviderVerdicts> }> {
  const { topic, ranges } = await rangesOf(access, 'refreshes', undefined, { offset: next })
  const verdicts = new Map<string, ProviderVerdicts>()
  for await (const page of scanTopic(access.reader, topic, ranges)) {
    for (const { value } of page) {
      const decoded = eventOf(access.kafka.codec, value)
      if (decoded?.event !== 'RefreshJudged') continue
      const judged: RefreshJudged = decoded.value
      const seen = verdicts.get(judged.provider) ?? { sides: {}, checkedAt: 0 }
      verdicts.set(judged.provider, seen)
      keep(seen, judged)
    }
  }
  return { start: ranges.get(0)?.from ?? 0, verdicts }
}

function keep(seen: ProviderVerdicts, judged: RefreshJudged): void {
  const { completedAt, latest } = seen.sides[judged.side] ?? { completedAt: null, latest: [] }
  const isApplied = judged.verdict === 'applied'
  seen.checkedAt = Math.max(seen.checkedAt, judged.observed_at)
  seen.sides[judged.side] = {
    completedAt: isApplied ? Math.max(completedAt ?? 0, judged.observed_at) : completedAt,
    latest: isApplied ? [judged] : [...latest, judged],
  }
}

function isCovered(found: StoredHealth | undefined, seen: ProviderVerdicts | undefined): boolean {
  const sides = SIDES.filter(side => found?.sides[side] ?? seen?.sides[side])
  return sides.every(side => seen?.sides[side]?.completedAt != null)
}

function healthOf({ sides, checkedAt }: ProviderVerdicts): StoredHealth {
  const own = SIDES.flatMap(side => {
    const of = sides[side]
    return of ? [{ side, of, health: sideOf(of) }] : []
  })
  // Asks come first: they decide where there are any.
  const [deciding] = own
  if (deciding === undefined) throw new Error('a provider without a verdict')
  const last = deciding.of.latest.at(-1) as RefreshJudged
  return {
    last_completed_at: deciding.health.completed_at,
    last_checked_at: checkedAt,
    consecutive_failures: Math.max(...own.map(({ health }) => health.failures)),
    total_offers: last.total_offers,
    unique_items: last.unique_items,
    total_value: last.total_value,
    total_value_usd: last.total_value_usd,
    currency: last.currency,
    quarantined_reason: own.map(({ health }) => health.quarantined_reason).find(reason => reason !== null) ?? null,
    sides: Object.fromEntries(own.map(({ side, health }) => [side, health])),
  }
}

function sideOf({ completedAt, latest }: SideVerdicts): NonNullable<StoredHealth['sides'][Side]> {
  const held = latest.findLast(({ verdict }) => verdict === 'quarantined')
  return {
    completed_at: completedAt,
    failures: latest.filter(({ verdict }) => verdict === 'failed' || verdict === 'incomplete').length,
    quarantined_reason: held === undefined ? null : (held.reason ?? 'quarantined'),
  }
}

/** Members in the order of their names, so that texts are equal where values are. */
const textOf = (health: StoredHealth): string =>
  JSON.stringify(health, (_, value) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  )
