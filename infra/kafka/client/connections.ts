/**
 * One connection of kafkajs to a broker.
 *
 * It opens a socket for each request that finds a connection closed and forgets all but the last, and it waits for ever when a broker ends
 * a connection before it is ready. Here requests wait for the same attempt, which fails when its socket closes.
 *
 * A response that was cut off in its midst stays, and what the next socket brings is read as the rest of it: no request is answered again.
 * A socket that was not ready in time stays open; each disconnect adds a listener to one that is closed. Here each attempt begins with
 * nothing.
 *
 * It keeps a connection on which a request was not answered in time: a broker that is frozen costs every third request of a cluster of
 * three the whole time limit. Here the connection is closed, as the Java client does; what else waited on it is asked again by its own retries.
 *
 * Its queue of requests sets a timer every millisecond while nothing waits. Here it returns early.
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
  send(request: object): Promise<unknown>
}

const SIZE_BYTES = 4

export function correctConnections(): void {
  const { prototype } = loadInternal('network/connection') as { prototype: Connection }
  const { connect, disconnect, send } = prototype
  const attempts = new WeakMap<Connection, Promise<boolean>>()
  prototype.connect = function () {
    const running = attempts.get(this)
    if (running !== undefined) return running
    const attempt = connectAfresh(this, connect).finally(() => attempts.delete(this))
    attempts.set(this, attempt)
    return attempt
  }
  prototype.disconnect = function () {
    // A closed socket takes another listener each time that it is asked not to keep the process alive.
    if (this.socket?.destroyed) this.socket = null
    return disconnect.call(this)
  }
  prototype.send = function (request) {
    return send.call(this, request).catch(error => {
      if (error.name === 'KafkaJSRequestTimeoutError') this.socket?.destroy(error)
      throw error
    })
  }
  const { prototype: queue } = loadInternal('network/requestQueue') as {
    prototype: { pending: unknown[]; throttledUntil: number; scheduleCheckPendingRequests(): void }
  }
  const schedule = queue.scheduleCheckPendingRequests
  queue.scheduleCheckPendingRequests = function () {
    if (this.pending.length === 0) return
    if (this.throttledUntil < 0) this.throttledUntil = Date.now()
    schedule.call(this)
  }
}

const { KafkaJSConnectionError } = loadInternal('errors') as {
  KafkaJSConnectionError: new (why: string, about: object) => Error
}

function connectAfresh(connection: Connection, connect: Connection['connect']): Promise<boolean> {
  if (!connection.isConnected()) {
    connection.socket?.destroy()
    Object.assign(connection, { socket: null, chunks: [], bytesBuffered: 0, bytesNeeded: SIZE_BYTES })
  }
  const former = connection.socket
  const { promise, resolve, reject } = Promise.withResolvers<boolean>()
  connect.call(connection).then(resolve, reject)
  const { socket, host, port } = connection
  // What was connected before, or could not be opened at all, has no socket of this attempt.
  if (socket === former) return promise
  socket?.once('close', () =>
    reject(new KafkaJSConnectionError('Connection closed early', { broker: `${host}:${port}` })),
  )
  return promise.catch(error => {
    socket?.destroy()
    throw error
  })
}
