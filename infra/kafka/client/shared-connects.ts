/**
 * kafkajs opens a socket for each request that finds a connection closed, and forgets all but the last: the others stay open as long
 * as the broker lives. It also waits for ever when a broker ends a connection before it is ready. Here requests wait for the same
 * attempt, which fails when its socket closes.
 *
 * Tested with a server that counts its connections in test/unit/kafkajs-connects.test.ts.
 */
import type { Socket } from 'node:net'
import { loadInternal } from './internals.ts'

interface Connection {
  host: string
  port: number
  socket: Socket | null
  connect(): Promise<boolean>
}

/** Puts the shared attempt in the client. */
export function correctConnects(): void {
  const { prototype } = loadInternal('network/connection') as { prototype: Connection }
  const { KafkaJSConnectionError } = loadInternal('errors') as {
    KafkaJSConnectionError: new (why: string, about: object) => Error
  }
  const connect = prototype.connect
  const attempts = new WeakMap<Connection, Promise<boolean>>()
  prototype.connect = function () {
    const running = attempts.get(this)
    if (running !== undefined) return running
    const attempt = new Promise<boolean>((resolve, reject) => {
      const former = this.socket
      connect.call(this).then(resolve, reject)
      const broker = `${this.host}:${this.port}`
      // What was connected before, or could not be opened at all, has no socket of this attempt.
      if (this.socket !== former)
        this.socket?.once('close', () => reject(new KafkaJSConnectionError('Connection closed early', { broker })))
    }).finally(() => attempts.delete(this))
    attempts.set(this, attempt)
    return attempt
  }
}
