/**
 * kafkajs fails, and a consumer ends, when the broker that it happens to ask is away, although others answer: it picks one at random to
 * search a coordinator or to get metadata, and asks the named controller alone for a producer id. Here the next broker is asked.
 */
import { loadInternal } from './internals.ts'

interface Broker {
  nodeId: string
  isConnected(): boolean
}

interface BrokerPool {
  brokers: Record<string, Broker>
  findBroker(node: { nodeId: string }): Promise<Broker>
  findConnectedBroker(): Promise<Broker>
  refreshMetadata(topics: string[]): Promise<unknown>
  withBroker<T>(ask: (asked: { nodeId: string; broker: Broker }) => Promise<T>): Promise<T | null>
}

const { KafkaJSBrokerNotFound } = loadInternal('errors') as { KafkaJSBrokerNotFound: new (why: string) => Error }
const shuffle = loadInternal('utils/shuffle') as <T>(list: T[]) => T[]

const AWAY = new Set([
  ...['KafkaJSConnectionError', 'KafkaJSConnectionClosedError', 'KafkaJSBrokerNotFound'],
  // connections.ts has closed its connection.
  'KafkaJSRequestTimeoutError',
])

export const isAway = (error: unknown): boolean => error instanceof Error && AWAY.has(error.name)

export function correctReachableBrokers(): void {
  const { prototype: pool } = loadInternal('cluster/brokerPool') as { prototype: BrokerPool }
  const { prototype: cluster } = loadInternal('cluster') as {
    prototype: { brokerPool: BrokerPool; findControllerBroker(): Promise<Broker> }
  }
  pool.withBroker = askAnyBroker
  const { refreshMetadata } = pool
  pool.refreshMetadata = async function (topics) {
    // Each failure leaves one connected broker fewer to pick.
    for (let left = Object.keys(this.brokers).length; ; left--) {
      try {
        return await refreshMetadata.call(this, topics)
      } catch (error) {
        if (left <= 0 || !isAway(error)) throw error
      }
    }
  }
  const { findControllerBroker } = cluster
  cluster.findControllerBroker = async function () {
    try {
      return await findControllerBroker.call(this)
    } catch (error) {
      if (!isAway(error)) throw error
      return this.brokerPool.findConnectedBroker()
    }
  }
}

async function askAnyBroker<T>(
  this: BrokerPool,
  ask: (asked: { nodeId: string; broker: Broker }) => Promise<T>,
): Promise<T | null> {
  const rank = (nodeId: string): number => (this.brokers[nodeId]?.isConnected() ? 0 : 1)
  // One that is not connected may be away, and finding that out takes as long as a connection may.
  const nodeIds = shuffle(Object.keys(this.brokers)).sort((a, b) => rank(a) - rank(b))
  if (nodeIds.length === 0) throw new KafkaJSBrokerNotFound('No brokers in the broker pool')
  for (const nodeId of nodeIds) {
    const asking = this.findBroker({ nodeId }).then(broker => ask({ nodeId, broker }))
    // A failure is no answer; null says that there was none at all.
    const [answer] = await Promise.allSettled([asking])
    if (answer.status === 'fulfilled') return answer.value
  }
  return null
}
