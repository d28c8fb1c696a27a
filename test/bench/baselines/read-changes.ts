/** Reads committed changes into memory, for baselines that write the same rows as a sink; reading is no part of what is measured. */
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { readConfig } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { BenchPlatform } from '../bench-platform.ts'

/** Changes that were made together, each of another item and provider. */
export interface SinkRound {
  /** By partition: the first offset, and the one after the last. */
  from: number[]
  to: number[]
  changes: number
}

/** Asks a baseline to write the rows of a round. */
export interface SinkQuestion extends SinkRound {
  environment: BenchPlatform['environment']
  sink: SinkName
}

export type SinkName = 'live-view' | 'history' | 'candles'

export interface ReadChange {
  partition: number
  offset: number
  change: BookChanged
}

export async function readChanges({ environment, from, to }: SinkQuestion): Promise<ReadChange[]> {
  const log = openLog({ level: 'warn', name: 'baseline' })
  const kafka = connectKafka({ config: readConfig(environment), role: 'baseline', log })
  const topic = kafka.topicName('bookChanges')
  const reader = await openRangeReader(kafka, [topic])
  const changes: ReadChange[] = []
  try {
    for (const [partition, end] of to.entries()) {
      const range = { from: from[partition] ?? 0, to: end }
      for await (const page of reader.range(topic, new Map([[partition, range]]))) {
        for (const { offset, value } of page) {
          if (value === null) continue
          const { event, value: change } = kafka.codec.decode(value)
          if (event === 'BookChanged') changes.push({ partition, offset, change })
        }
      }
    }
  } finally {
    await reader.close()
  }
  return changes
}
