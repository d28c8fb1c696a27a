/**
 * Reads market.book-changes whole, once a question: as a group that counts, whom the records reach undecoded, measured from its assignment on,
 * or as `replay` does at speed 0, to a stream that drops it.
 */
import { Writable } from 'node:stream'
import { connectKafka } from '#infra/kafka/connection.ts'
import { joinGroup } from '#infra/kafka/group-consumer.ts'
import { openLogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import { readConfig } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import { topics } from '#schemas/topics.ts'
import { openRecordWriter } from '#services/cli/log-tools/record-text.ts'
import { play } from '#services/cli/log-tools/replay.ts'
import { answerAsBaseline, type Measured, measured } from '../baseline.ts'
import type { BenchPlatform } from '../bench-platform.ts'

export interface ReadQuestion {
  environment: BenchPlatform['environment']
  ends: number[]
  /** A name that no question had before. */
  turn: string
}

export type ReadCount = Pick<Measured, 'count' | 'ms'>

const log = openLog({ level: 'warn', name: 'log-readers' })

async function count({ environment, ends, turn }: ReadQuestion): Promise<ReadCount> {
  const kafka = connectKafka({ config: readConfig(environment), role: 'counter', log })
  const positions = new Map<number, number>()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let assignedAt = 0
  let found = 0
  const pass = (partition: number, next: number): void => {
    positions.set(partition, next)
    if (ends.every((end, each) => (positions.get(each) ?? 0) >= end)) resolve()
  }
  const member = await joinGroup(
    kafka,
    { group: `counter-${turn}`, topics: ['bookChanges'], fail: reject },
    {
      assigned() {
        assignedAt = performance.now()
      },
      async batch(batch) {
        found += batch.messages.length
        pass(batch.partition, batch.next)
        return 'done'
      },
      passed: async (_topic, partition, next) => pass(partition, next),
    },
  )
  await promise
  const ms = performance.now() - assignedAt
  await member.leave()
  return { count: found, ms }
}

async function replay({ environment, isRaw }: ReadQuestion & { isRaw: boolean }): Promise<ReadCount> {
  const access = await openLogAccess(readConfig(environment), log, ['bookChanges'])
  const stretch = await rangesOf(access, 'bookChanges', undefined)
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const writeRecords = openRecordWriter(access.kafka.codec, topics.bookChanges, nowhere, isRaw)
  const { signal } = new AbortController()
  try {
    return await measured(async () => {
      let found = 0
      await play(access, stretch, { speed: 0, signal }, async records => {
        await writeRecords(records)
        found += records.length
      })
      return found
    })
  } finally {
    await access.close()
  }
}

answerAsBaseline({ count, replay })
