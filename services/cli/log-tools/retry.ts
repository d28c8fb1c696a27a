/**
 * `marketlog dead-letters retry` and `unresolved retry`: asks the owners of views to take records again.
 *
 * Writes the topic `retries` and nothing else; the groups named as its readers take the records by their own sinks
 * (streams/runner/sink-runner.ts), so each view keeps its single writer. Only views that merge by log offset can take a
 * record late. The others are refused here: `book` takes a name at its provider's next refresh once the catalog knows it,
 * and `rebuild` restores what `live-view` has missed. Asking twice is harmless.
 */
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { type LogAccess, openLogAccess } from '#infra/kafka/log-access.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { type RetryAsked, retryAsked } from '#schemas/events/retry-asked.ts'
import { type TopicDefinition, topics } from '#schemas/topics.ts'
import { FROM_THE_FUTURE } from '#schemas/values/event-time.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import { type Choice, chosen, readDeadLetters, readUnresolved } from './dead-letters.ts'
import { type Output, write } from './output.ts'

/** What is to be retried. */
export interface RetryOptions extends Choice {
  /** Of the list; all when empty. */
  numbers: readonly number[]
  dryRun?: boolean
}

interface Candidate {
  number: number
  group: string
  asked: RetryAsked | undefined
  /** Why it cannot be asked for. */
  refusal: string | undefined
}

const WRITER = 'cli'

/** Asks, and prints what was asked and what was not. */
export async function retry(
  config: PlatformConfig,
  log: Log,
  source: 'dead-letters' | 'unresolved',
  options: RetryOptions,
  output: Output,
): Promise<void> {
  const access = await openLogAccess(config, log, ['deadLetters', 'unresolved'])
  try {
    const all = source === 'unresolved' ? await ofNames(access, options) : await ofLetters(access, options)
    const candidates = numbered(all, options.numbers)
    const asked = candidates.flatMap(one => (one.refusal === undefined && one.asked ? [one.asked] : []))
    if (options.dryRun !== true) await publish(access, asked)
    const refused = Map.groupBy(
      candidates.filter(one => one.refusal !== undefined),
      one => `${one.group}: ${one.refusal}`,
    )
    const left = [...refused].map(([reason, each]) => ({ records: each.length, reason }))
    if (output.isTTY === true) {
      await write(output, `${options.dryRun ? 'would ask' : 'asked'} for ${asked.length} records\n`)
      for (const { records, reason } of left) await write(output, `left ${records} alone; ${reason}\n`)
    } else await write(output, `${JSON.stringify({ asked: asked.length, dry_run: options.dryRun ?? false, left })}\n`)
    if (asked.length === 0 && options.numbers.length > 0) {
      throw new CommandFailure('none of these can be tried again', exitCodes.failed)
    }
  } finally {
    await access.close()
  }
}

function numbered(all: readonly Candidate[], numbers: readonly number[]): Candidate[] {
  const missing = numbers.filter(number => !all.some(one => one.number === number))
  if (missing.length > 0) throw new CommandFailure(`not in the list: ${missing.join(', ')}`, exitCodes.usage)
  return all.filter(one => numbers.length === 0 || numbers.includes(one.number))
}

async function ofLetters(access: LogAccess, choice: Choice): Promise<Candidate[]> {
  return chosen(await readDeadLetters(access), choice).map(({ number, value: letter }) => {
    const { group, topic, partition, offset, key, value, reason } = letter
    const asked = value === null ? undefined : { group, topic, partition, offset, key, value }
    const refusal = asked ? (refusalOf(group) ?? refusalBy(reason)) : 'the record has no value'
    return { number, group, asked, refusal }
  })
}

async function ofNames(access: LogAccess, choice: Choice): Promise<Candidate[]> {
  const catalog = await openCatalogReader(access.kafka)
  try {
    const names = (await readUnresolved(access)).filter(
      ({ value }) => choice.group === undefined || value.group === choice.group,
    )
    return names.map(({ number, value: name }) => {
      const { group, topic, partition, offset, market_hash_name, phase, value } = name
      const isKnown = catalog.idOf(market_hash_name, phase) !== undefined
      // Every group that reads the topic lacked the name, not only the one that reported it.
      const asked = { group: null, topic, partition, offset, key: null, value }
      return { number, group, asked, refusal: refusalOf(group) ?? (isKnown ? undefined : 'the catalog lacks the name') }
    })
  } finally {
    await catalog.close()
  }
}

/** Why records of a group cannot be taken late; undefined when they can. */
function refusalOf(group: string): string | undefined {
  const { readers }: TopicDefinition = topics.retries
  if (readers.includes(group)) return undefined
  if (group === 'book') return 'its provider sends it again with the next refresh'
  return `its view depends on the order of the log; \`marketlog rebuild ${group}\` makes it whole`
}

/** Taken again it would be a record of the past, but a rebuild, which reads the log itself, would refuse it again. */
const refusalBy = (reason: string): string | undefined =>
  reason === FROM_THE_FUTURE ? 'its time lies after that at which the log took it' : undefined

async function publish({ kafka }: LogAccess, asked: readonly RetryAsked[]): Promise<void> {
  if (asked.length === 0) return
  const publisher = await openPublisher(kafka, WRITER)
  try {
    await publisher.send(
      asked.map(one => ({
        topic: 'retries' as const,
        key: `${one.topic}|${one.partition}`,
        value: kafka.codec.encode(retryAsked, one),
      })),
    )
  } finally {
    await publisher.close()
  }
}
