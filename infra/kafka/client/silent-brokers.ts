/**
 * kafkajs keeps a connection on which a request was not answered in time, and asks that broker again: one that is frozen costs every
 * third request of a cluster of three the whole time limit. Here its connection is closed, as the Java client does, so another broker is
 * asked next; what else waited on it fails at once and is asked again by its own retries.
 *
 * Tested on three real brokers, of which one is frozen, in test/fault/three-brokers.test.ts.
 */
import type { Socket } from 'node:net'
import { loadInternal } from './internals.ts'

interface Connection {
  socket: Socket | null
  send(request: object): Promise<unknown>
}

export function correctSilentBrokers(): void {
  const { prototype } = loadInternal('network/connection') as { prototype: Connection }
  const { send } = prototype
  prototype.send = async function (request) {
    try {
      return await send.call(this, request)
    } catch (error) {
      if (error instanceof Error && error.name === 'KafkaJSRequestTimeoutError') this.socket?.destroy(error)
      throw error
    }
  }
}
