/**
 * kafkajs opens a socket for each request that finds a connection closed, and forgets all but the last: the others stay open as long
 * as the broker lives. It also waits for ever when a broker ends a connection before it is ready. Here requests wait for the same
 * attempt, which fails when its socket closes.
 *
 * Nor does it clear up between two sockets of a connection. A response that was cut off in its midst stays, and what the next socket
 * brings is read as the rest of it: no request on that connection is answered again. A socket that was not ready in time stays open and
 * may report itself ready much later; each disconnect adds a listener to one that is closed. Here each attempt begins with nothing.
 *
 * Tested with a server that counts and cuts its connections in test/unit/kafkajs-connects.test.ts.
 */
import type { Socket } from 'node:net'
import { loadInternal } from './internals.ts'

interface Connection {
  host: string
  port: number
  socket: Socket | null
  /** Bytes of a response that is not whole yet. */
  chunks: Buffer[]
  bytesBuffered: number
  bytesNeeded: number
  isConnected(): boolean
  connect(): Promise<boolean>
  disconnect(): Promise<boolean>
}

/** A response begins with its size. */
const SIZE_BYTES = 4

/** Puts the shared attempt, and a clean begin of each, in the client. */
export function correctConnects(): void {
  const { prototype } = loadInternal('network/connection') as { prototype: Connection }
  const { KafkaJSConnectionError } = loadInternal('errors') as {
    KafkaJSConnectionError: new (why: string, about: object) => Error
  }
  const { connect, disconnect } = prototype
  const attempts = new WeakMap<Connection, Promise<boolean>>()
  prototype.connect = function () {
    const running = attempts.get(this)
    if (running !== undefined) return running
    if (!this.isConnected()) clear(this)
    const former = this.socket
    const attempt = new Promise<boolean>((resolve, reject) => {
      connect.call(this).then(resolve, reject)
      const broker = `${this.host}:${this.port}`
      // What was connected before, or could not be opened at all, has no socket of this attempt.
      if (this.socket !== former)
        this.socket?.once('close', () => reject(new KafkaJSConnectionError('Connection closed early', { broker })))
    })
    const { socket } = this
    const shared = attempt
      .catch(error => {
        if (socket !== former) socket?.destroy()
        throw error
      })
      .finally(() => attempts.delete(this))
    attempts.set(this, shared)
    return shared
  }
  prototype.disconnect = function () {
    // A closed socket takes another listener each time that it is told not to keep the process alive.
    if (this.socket?.destroyed) this.socket = null
    return disconnect.call(this)
  }
}

function clear(connection: Connection): void {
  connection.socket?.destroy()
  Object.assign(connection, { socket: null, chunks: [], bytesBuffered: 0, bytesNeeded: SIZE_BYTES })
}
