import type { TopicKey } from '#schemas/topics.ts'

/** What a processor that runs exactly once reads and writes. */
export interface ProcessorTopics {
  group: string
  inputs: readonly TopicKey[]
  changelog: TopicKey
  /** The changelog partition that belongs to an input partition, and to no other. */
  changelogPartition(topic: TopicKey, partition: number): number
  /** What it derives: while this holds records, a changelog without a position is one that was lost. */
  output: TopicKey
}
