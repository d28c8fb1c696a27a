/**
 * The limit of the book: a member of a group that decodes market.quotes and does nothing else.
 *
 * Uses the platform's own consumer and codec, as the book does. Each question is a stretch of the log: it joins, reads from
 * where it stopped before to the given ends, commits and leaves. Time and CPU count from the assignment to the last
 * record: the book has joined long before, so a join, the metadata and the leaving are no part of what is compared.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { joinGroup } from '#infra/kafka/group-consumer.ts'
import { readConfig } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import { topics } from '#schemas/topics.ts'
import { answerAsBaseline, type Measured } from '../baseline.ts'
import type { BenchPlatform } from '../bench-platform.ts'

/** A stretch of market.quotes, from the last one's end. */
export interface Stretch {
  environment: BenchPlatform['environment']
  /** End offset of each partition. */
  ends: number[]
}

/** The next offset of each partition. */
const positions = new Map<number, number>()

async function consume({ environment, ends }: Stretch): Promise<Measured> {
  const log = openLog({ level: 'warn', name: 'decoder' })
  const kafka = connectKafka({ config: readConfig(environment), role: 'decoder', log })
  await kafka.codec.prepare([...topics.quotes.events])
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let startedAt = 0
  let cpu = process.cpuUsage()
  let count = 0
  const isAtEnd = (): boolean => ends.every((end, partition) => (positions.get(partition) ?? 0) >= end)
  if (isAtEnd()) return { count, ms: 0, cpuSeconds: 0 }
  const pass = (partition: number, next: number): void => {
    positions.set(partition, next)
    if (isAtEnd()) resolve()
  }
  const member = await joinGroup(
    kafka,
    { group: 'decoder', topics: ['quotes'], fail: reject },
    {
      assigned: () => {
        startedAt = performance.now()
        cpu = process.cpuUsage()
      },
      async batch(batch, _tick, commit) {
        for (const { value } of batch.messages) if (value !== null) kafka.codec.decode(value)
        count += batch.messages.length
        await commit(batch.topic, batch.partition, batch.next)
        pass(batch.partition, batch.next)
        return 'done'
      },
      async passed(topic, partition, next, commit) {
        await commit(topic, partition, next)
        pass(partition, next)
      },
    },
  )
  await promise
  const ms = performance.now() - startedAt
  const { user, system } = process.cpuUsage(cpu)
  await member.leave()
  return { count, ms, cpuSeconds: (user + system) / 1e6 }
}

answerAsBaseline({ consume })
