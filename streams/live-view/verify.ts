/**
 * Compares the live tables in Redis with the book's own changelog.
 *
 * The cut: heads are read before and after the rows; the rows therefore show a moment between the two. A row that no change
 * from the first head on touches must be the changelog's; one that is touched must be as it was before (by the
 * change) or as one of the changes up to the second head left it. Listings must hold exactly the items with a row.
 */
import { type LogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { readSlots, scanKeys } from '#infra/redis/servers.ts'
import type { BookChanged, OfferUrlChanged } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS, PROVIDER_PARTITIONS } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { compare, type Findings, noFindings } from '#streams/runner/verify/findings.ts'
import type { VerifyTask } from '#streams/runner/view.ts'
import { decodeRow, headKey, type LiveHead, parseHead } from './table.ts'

/** What Redis holds: `side|provider|item` → row, and the same keys by the listings. */
interface Stored {
  rows: Map<string, string>
  listed: Set<string>
}

type RowChange = BookChanged | OfferUrlChanged

/** A change with its offset. */
interface PlacedChange {
  offset: number
  change: RowChange
}

/** How a row moves after the first head. */
interface Motion {
  first: RowChange
  /** What the changes before the second head left. */
  left: (string | undefined)[]
}

const SCAN_COUNT = 2_000
const TRIES = 3

/** Compares all partitions. */
export async function verifyLive({ config, log, access, report }: VerifyTask): Promise<Findings> {
  const redis = await openRedis(config, { name: `${config.namespace}verify`, log })
  try {
    for (let tries = 1; ; tries++) {
      report('reading the tables')
      const slots = await readSlots(redis)
      const before = await readHeads(redis, config.namespace)
      const stored = await readStored(redis, config.namespace, before)
      const after = await readHeads(redis, config.namespace)
      const isSame = before.every((head, each) => head?.generation === after[each]?.generation)
      // A rebuild switched meanwhile: what was read is of two tables.
      if (!isSame && tries < TRIES) continue
      if (slots === undefined || slots !== (await readSlots(redis))) {
        if (tries < TRIES) continue
        throw new Error('the Cluster is moving slots: verify the view when that has ended')
      }
      report('reading the log')
      return await compareAll(access, stored, before, after)
    }
  } finally {
    await closeRedis(redis)
  }
}

async function compareAll(
  access: LogAccess,
  stored: Stored,
  before: readonly (LiveHead | undefined)[],
  after: readonly (LiveHead | undefined)[],
): Promise<Findings> {
  const findings = noFindings()
  const expected = await readBook(access)
  const motions = new Map<string, Motion>()
  const topic = access.kafka.topicName('bookChanges')
  for (const [partition, head] of before.entries()) {
    if (!head) {
      compare(findings, `head of partition ${partition}`, 'a head', undefined)
      continue
    }
    const to = await access.reader.end(topic, partition)
    for (const { offset, change } of await readChanges(access, partition, { from: head.next, to })) {
      const key = keyOf(change.side, change.provider, change.item_id)
      const motion = motions.get(key) ?? { first: change, left: [] }
      motions.set(key, motion)
      if (offset < (after[partition]?.next ?? 0)) motion.left.push(textOfChange(change))
    }
  }
  const hasHead = (key: string): boolean => before[partitionOfKey(key)] !== undefined
  for (const key of new Set([...expected.keys(), ...stored.rows.keys(), ...stored.listed])) {
    if (!hasHead(key)) continue
    const [found, motion] = [stored.rows.get(key), motions.get(key)]
    if (motion) {
      const isSound = motion.left.includes(found) || isAsBefore(motion.first, found)
      compare(findings, key, isSound ? found : (motion.left.at(-1) ?? 'as before its next change'), found)
    } else {
      compare(findings, key, expected.get(key), found)
      compare(findings, `listing ${key}`, expected.has(key) ? 'listed' : undefined, mark(stored.listed.has(key)))
    }
  }
  return findings
}

const mark = (isListed: boolean): string | undefined => (isListed ? 'listed' : undefined)

/** Whether a row is as its next change found it, as far as the change carries that. */
function isAsBefore(change: RowChange, found: string | undefined): boolean {
  const [microBefore, quantityBefore] =
    'change' in change
      ? [change.previous_micro_usd, change.previous_quantity]
      : [change.price_micro_usd, change.quantity]
  if (found === undefined) return microBefore === null
  const [, , micro, quantity] = found.split(' ')
  return Number(micro) === microBefore && Number(quantity) === quantityBefore
}

/** The rows of the book by its changelog, whose partitions are those of asks, then those of bids. */
async function readBook(access: LogAccess): Promise<Map<string, string>> {
  const { topic, ranges } = await rangesOf(access, 'book', undefined)
  const rows = new Map<string, string>()
  for await (const page of scanTopic(access.reader, topic, ranges)) {
    for (const { partition, key, value } of page) {
      const [kind, provider = '', item = ''] = key?.toString().split('|') ?? []
      if (kind !== 'row') continue
      const row = keyOf(partition < PROVIDER_PARTITIONS ? 'ask' : 'bid', provider, Number(item))
      if (value === null) rows.delete(row)
      else {
        const stored = access.kafka.codec.decode(value).value
        const { price, currency, price_micro_usd, quantity, seen_at, url } = stored
        rows.set(row, [price, currency, price_micro_usd, quantity, seen_at, url].join(' '))
      }
    }
  }
  return rows
}

function textOfChange(change: RowChange): string | undefined {
  const { price, currency, price_micro_usd, quantity, seen_at, url } = change
  return price === null ? undefined : [price, currency, price_micro_usd, quantity, seen_at, url].join(' ')
}

async function readHeads(redis: Redis, prefix: string): Promise<(LiveHead | undefined)[]> {
  const partitions = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)
  const texts = await Promise.all(partitions.map(partition => redis.get(headKey(partition, prefix))))
  return texts.map(text => (text === null ? undefined : parseHead(text)))
}

const FORM = /\{live:(\d+)\}:(\d+):(ask|bid):(item|list):(.+)$/

async function readStored(redis: Redis, prefix: string, heads: readonly (LiveHead | undefined)[]): Promise<Stored> {
  const stored: Stored = { rows: new Map(), listed: new Set() }
  for await (const keys of scanKeys(redis, `${prefix}{live:*`, SCAN_COUNT)) {
    await Promise.all(
      keys.map(async key => {
        const [, partition, generation, side = '', kind, name = ''] = FORM.exec(key) ?? []
        if (partition === undefined || heads[Number(partition)]?.generation !== Number(generation)) return
        if (kind === 'list') {
          for (const item of await redis.zrange(key, '0', '-1')) stored.listed.add(keyOf(side, name, Number(item)))
          return
        }
        for (const [provider, text] of Object.entries(await redis.hgetall(key))) {
          const { price, currency, priceMicroUsd, quantity, seenAt, url } = decodeRow(text)
          const row = [price, currency, priceMicroUsd, quantity, seenAt, url].join(' ')
          stored.rows.set(keyOf(side, provider, Number(name)), row)
        }
      }),
    )
  }
  return stored
}

const keyOf = (side: string, provider: string, itemId: number): string => `${side}|${provider}|${itemId}`

const partitionOfKey = (key: string): number => partitionOfItem(Number(key.slice(key.lastIndexOf('|') + 1)))

/** Reads the changes of a range, those of URLs too. */
async function readChanges(
  { kafka, reader }: LogAccess,
  partition: number,
  range: { from: number; to: number },
): Promise<PlacedChange[]> {
  const changes: PlacedChange[] = []
  for await (const page of scanTopic(reader, kafka.topicName('bookChanges'), new Map([[partition, range]]))) {
    for (const { offset, value } of page) {
      if (value === null) continue
      const { event, value: change } = kafka.codec.decode(value)
      if (event === 'BookChanged' || event === 'OfferUrlChanged') changes.push({ offset, change })
    }
  }
  return changes
}
