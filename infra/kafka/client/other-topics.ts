/**
 * One topic without a leader, of any owner, fails in kafkajs all that asks about other topics: a list of topics, and the connection
 * of a new producer, which asks for every topic since kafkajs encodes "none yet" as "all". Here none means none, and a list of
 * all topics shows such a partition with leader -1. Topics that are asked for by name still have to have their leaders.
 */
import { loadInternal } from './internals.ts'
import { Encoder, type Exchange, type ExchangingBroker, type WireEncoder, withErrors, withExchanges } from './wire.ts'

/** Asked for by a client that needs no topic yet; another empty list still means all. */
const NONE: readonly string[] = []
/** From this version on requests carry whether topics may be created. */
const VERSION_WITH_CREATION = 4

export function correctOtherTopics(): void {
  const { prototype: pool } = loadInternal('cluster/brokerPool') as {
    prototype: { refreshMetadata(topics: readonly string[]): Promise<unknown> }
  }
  const { prototype: broker } = loadInternal('broker') as {
    prototype: ExchangingBroker & { metadata(topics?: readonly string[]): Promise<unknown> }
  }
  const { refreshMetadata } = pool
  const { metadata } = broker
  pool.refreshMetadata = function (topics) {
    return refreshMetadata.call(this, topics.length === 0 ? NONE : topics)
  }
  broker.metadata = function (topics = []) {
    if (topics.length > 0) return metadata.call(this, topics)
    return metadata.call(withExchanges(this, topics === NONE ? forNone : withErrors), topics)
  }
}

function forNone({ request, response }: Exchange, parameters: object): Exchange {
  const encode = async (): Promise<WireEncoder> => {
    const none = new Encoder().writeArray([])
    const { allowAutoTopicCreation } = parameters as { allowAutoTopicCreation: boolean }
    return request.apiVersion < VERSION_WITH_CREATION ? none : none.writeBoolean(allowAutoTopicCreation)
  }
  return { request: { ...request, encode }, response }
}
