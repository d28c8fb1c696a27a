/** The retention of topics as the brokers have it, which may differ from the catalogue's until the next set-up. */
import { allTopics } from '#schemas/topics.ts'
import { ConfigResourceTypes } from './client/kafkajs.ts'
import type { KafkaConnection } from './connection.ts'
import { withAdmin } from './with-admin.ts'

/** The retention of a topic as the brokers have it. */
export interface LiveRetention {
  isCompacted: boolean
  /** Milliseconds; -1: for ever. */
  ms: number
  /** Of each partition; -1: without limit. */
  bytes: number
}

/** Live retention by the catalogue's names. */
export async function liveRetentions(kafka: KafkaConnection): Promise<Map<string, LiveRetention>> {
  return withAdmin(
    kafka,
    async admin => {
      const existing = new Set(await admin.listTopics())
      const names = allTopics.map(({ name }) => name).filter(name => existing.has(kafka.namespace + name))
      if (names.length === 0) return new Map()
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: names.map(name => ({
          type: ConfigResourceTypes.TOPIC,
          name: kafka.namespace + name,
          configNames: ['cleanup.policy', 'retention.ms', 'retention.bytes'],
        })),
      })
      return new Map(
        resources.map(({ resourceName, configEntries }) => {
          const settings = new Map(configEntries.map(({ configName, configValue }) => [configName, configValue]))
          const retention = {
            isCompacted: settings.get('cleanup.policy')?.includes('compact') ?? false,
            ms: Number(settings.get('retention.ms') ?? -1),
            bytes: Number(settings.get('retention.bytes') ?? -1),
          }
          return [resourceName.slice(kafka.namespace.length), retention]
        }),
      )
    },
    { name: 'settings' },
  )
}
