/**
 * Which consumer group reads which topic, and in which order the log flows through them.
 *
 * Derived from the catalogue of topics alone. Roles that read without a group, and compacted topics, which
 * are tables that readers keep in memory, have no lag and do not appear.
 */
import { type TopicDefinition, type TopicKey, topics } from '#schemas/topics.ts'

/** A group on one topic; `stage` counts the groups that a record passed before it reached the topic. */
export interface ReadingGroup {
  group: string
  topic: TopicKey
  stage: number
}

/** Roles that read without a group: every topic, or only those named, which each of their processes follows whole. */
const WITHOUT_GROUP: Record<string, 'every' | readonly string[]> = {
  api: 'every',
  feed: 'every',
  'market-summary': 'every',
  'alert-triggers': ['market.fx'],
}

const readsInGroup = (reader: string, topic: TopicDefinition): boolean => {
  const without = WITHOUT_GROUP[reader] ?? []
  return without !== 'every' && !without.includes(topic.name)
}

const groupsOf = (topic: TopicDefinition): string[] =>
  topic.retention.policy === 'compact' ? [] : topic.readers.filter(reader => readsInGroup(reader, topic))

/** Every group and topic, earliest stage first. */
export function readingGroups(): ReadingGroup[] {
  const entries = Object.entries(topics) as [TopicKey, TopicDefinition][]
  const stageOf = (topic: TopicDefinition, path: readonly string[] = []): number => {
    const inputs = entries.filter(([, input]) => groupsOf(input).includes(topic.writer) && !path.includes(input.name))
    return inputs.reduce((stage, [, input]) => Math.max(stage, 1 + stageOf(input, [...path, topic.name])), 0)
  }
  return entries
    .flatMap(([key, topic]) => groupsOf(topic).map(group => ({ group, topic: key, stage: stageOf(topic) })))
    .sort((one, other) => one.stage - other.stage || one.group.localeCompare(other.group))
}
