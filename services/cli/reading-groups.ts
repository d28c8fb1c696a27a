/**
 * Which consumer group reads which topic, and in which order the log flows through them. Roles that read without a group, and
 * compacted topics, which are tables that readers keep in memory, have no lag and do not appear.
 */
import { type TopicDefinition, type TopicKey, topics } from '#schemas/topics.ts'
import { VIEWS } from '#streams/views.ts'
import { isRoleThat } from './roles.ts'

function readsInGroup(reader: string, topic: TopicKey): boolean {
  const view = VIEWS.find(({ name }) => name === reader)
  return view ? view.topics.includes(topic) : !isRoleThat('readsWithoutGroup', reader)
}

function groupsOf(topic: TopicKey): string[] {
  const { retention, readers }: TopicDefinition = topics[topic]
  return retention.policy === 'compact' ? [] : readers.filter(reader => readsInGroup(reader, topic))
}

/** Every group and topic, earliest stage first; `stage` counts the groups that a record passed before it reached the topic. */
export function readingGroups() {
  const keys = Object.keys(topics) as TopicKey[]
  const stageOf = (topic: TopicKey, path: readonly TopicKey[] = []): number => {
    const inputs = keys.filter(input => groupsOf(input).includes(topics[topic].writer) && !path.includes(input))
    return inputs.reduce((stage, input) => Math.max(stage, 1 + stageOf(input, [...path, topic])), 0)
  }
  return keys
    .flatMap(topic => groupsOf(topic).map(group => ({ group, topic, stage: stageOf(topic) })))
    .sort((one, other) => one.stage - other.stage || one.group.localeCompare(other.group))
}
