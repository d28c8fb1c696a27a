/**
 * The role `provisional-items`: market.unresolved in; catalog.provisional and the changelog catalog.sightings out, exactly once.
 *
 * Sole writer of both.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import type { CatalogReader, StartRole } from '#infra/runtime/role.ts'
import { catalogItemPublished } from '#schemas/events/catalog-item-published.ts'
import { nameSighted } from '#schemas/events/name-sighted.ts'
import type { ProcessorTopics } from '#streams/runner/changelog-positions.ts'
import { type PartitionProcessor, runProcessor } from '#streams/runner/exactly-once-runner.ts'
import { noNames, openDrafting, restore, step } from './step.ts'

export const provisionalTopics: ProcessorTopics = {
  group: 'provisional-items',
  inputs: ['unresolved'],
  changelog: 'sightings',
  changelogPartition: () => 0,
  output: 'provisionalItems',
}

export const start: StartRole = async context => {
  const kafka = connectKafka({ config: context.config, role: 'provisional-items', log: context.log })
  const catalog = await context.catalog()
  return runProcessor(context, kafka, {
    ...provisionalTopics,
    open: () => openNames(kafka.codec, catalog),
  })
}

function openNames(codec: Codec, catalog: CatalogReader): PartitionProcessor {
  const state = noNames()
  let version = catalog.version()
  let draftOf = openDrafting(catalog.items())
  return {
    loadChangelog: (key, value) => restore(state, key, value as never),
    openFrom: () => undefined,
    replayOpenRefresh: () => undefined,
    step({ value, appendedAt }, emit) {
      const { outcome, stored, item } = step(state, value, appendedAt, catalog.idOf)
      for (const [key, sighted] of stored)
        emit({ topic: 'sightings', partition: 0, key, value: sighted && codec.encode(nameSighted, sighted) })
      if (item) {
        if (version !== catalog.version()) {
          version = catalog.version()
          draftOf = openDrafting(catalog.items())
        }
        const value = codec.encode(catalogItemPublished, { ...draftOf(item.market_hash_name), ...item, supply: null })
        emit({ topic: 'provisionalItems', partition: 0, key: String(item.item_id), value })
      }
      return outcome
    },
  }
}
