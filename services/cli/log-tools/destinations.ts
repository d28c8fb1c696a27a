/**
 * Where a replay goes: JSON lines on an output, a topic of one's own, or an HTTP endpoint.
 *
 * `put` resolves when the destination has taken the records, so a slow one slows the replay and nothing accumulates; a
 * destination that fails ends the replay with the position.
 */
import pRetry, { AbortError } from 'p-retry'
import type { LogAccess } from '#infra/kafka/log-access.ts'
import { openTopicCopy } from '#infra/kafka/topic-copy.ts'
import type { ScannedRecord } from '#infra/kafka/topic-scan.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import { type Output, write } from './output.ts'
import { openRecordText } from './record-text.ts'

/** Takes records in the order of the replay. */
export interface Destination {
  put(records: readonly ScannedRecord[]): Promise<void>
  close(): Promise<void>
}

const RECORDS_PER_WRITE = 1_000
const RECORDS_PER_POST = 500
const POST_LIMIT_MS = 30_000
const POST_RETRIES = 5

/** Lines as `tail` prints them; `isRaw` leaves the value undecoded, in base64. */
export function outputDestination(access: LogAccess, key: TopicKey, output: Output, isRaw: boolean): Destination {
  const textOf = openRecordText(access.kafka.codec, topics[key], isRaw)
  return {
    async put(records) {
      for (let at = 0; at < records.length; at += RECORDS_PER_WRITE) {
        await write(output, await textOf(records.slice(at, at + RECORDS_PER_WRITE)))
      }
    },
    close: async () => undefined,
  }
}

/** A topic that the catalogue does not name; partitions, keys, bytes and times are the original's. */
export async function topicDestination(access: LogAccess, key: TopicKey, name: string): Promise<Destination> {
  const copy = await openTopicCopy(access.kafka, name, topics[key].partitions).catch(error => {
    throw new CommandFailure(messageOf(error), exitCodes.usage, error)
  })
  return { put: records => copy.send(records), close: () => copy.close() }
}

/** NDJSON by POST, some hundred lines a request, one request at a time; 2xx takes it, 5xx and 429 are tried again. */
export function urlDestination(access: LogAccess, key: TopicKey, url: string): Destination {
  const textOf = openRecordText(access.kafka.codec, topics[key], false)
  const post = async (body: Buffer<ArrayBuffer>): Promise<void> => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body,
      signal: AbortSignal.timeout(POST_LIMIT_MS),
    })
    await response.body?.cancel()
    if (response.ok) return
    const refusal = new Error(`${url} answered ${response.status}`)
    throw response.status >= 500 || response.status === 429 ? refusal : new AbortError(refusal)
  }
  return {
    async put(records) {
      for (let at = 0; at < records.length; at += RECORDS_PER_POST) {
        const some = records.slice(at, at + RECORDS_PER_POST)
        const body = await textOf(some)
        await pRetry(() => post(body), { retries: POST_RETRIES, minTimeout: 200, maxTimeout: 5_000 }).catch(error => {
          const { partition, offset } = some[0] as ScannedRecord
          throw new CommandFailure(`stopped before ${partition}@${offset}: ${messageOf(error)}`, exitCodes.failed)
        })
      }
    },
    close: async () => undefined,
  }
}
