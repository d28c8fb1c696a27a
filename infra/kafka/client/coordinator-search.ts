/**
 * kafkajs ends a consumer when a broker disconnects while it is asked for a coordinator. Here that counts as a coordinator
 * that was not found, and the lookup is repeated.
 *
 * Connections are broken at that moment in test/integration/kafkajs.test.ts.
 */
import { loadInternal } from './internals.ts'

export function correctCoordinatorSearch(): void {
  const { KafkaJSBrokerNotFound } = loadInternal('errors') as { KafkaJSBrokerNotFound: new (why: string) => Error }
  const { prototype } = loadInternal('cluster') as {
    prototype: { findGroupCoordinatorMetadata(group: unknown): Promise<unknown> }
  }
  const find = prototype.findGroupCoordinatorMetadata
  prototype.findGroupCoordinatorMetadata = async function (group) {
    try {
      return await find.call(this, group)
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'KafkaJSGroupCoordinatorNotFound') throw error
      throw new KafkaJSBrokerNotFound(error.message)
    }
  }
}
