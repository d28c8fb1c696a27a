/**
 * Connections of the Kafka client: one socket however many requests wait for it.
 *
 * Requests that found a connection closed opened a socket each, and all but the last stayed open until the process ended.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { expect } from 'chai'
import { loadInternal } from '#infra/kafka/client/internals.ts'
// Installs the corrections.
import '#infra/kafka/client/kafkajs.ts'
import { within } from '#test/harness/eventually.ts'

interface Connection {
  connect(): Promise<boolean>
  disconnect(): Promise<boolean>
}

type SocketFactory = (at: { host: string; port: number; onConnect(): void }) => Socket

const LIMIT_MS = 5_000
const silent = { namespace: () => silent, debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const plain: SocketFactory = ({ host, port, onConnect }) => connect(port, host, onConnect)
/** As with TLS: the socket is connected before the connection is ready, which this one never is. */
const neverReady: SocketFactory = ({ host, port }) => connect(port, host)

async function withServer(
  onSocket: (socket: Socket) => void,
  use: (open: (socketFactory: SocketFactory) => Connection, server: Server) => Promise<void>,
): Promise<void> {
  const server = createServer(onSocket).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const Connection = loadInternal('network/connection') as new (options: object) => Connection
  try {
    await use(
      socketFactory =>
        new Connection({
          ...{ host: '127.0.0.1', port, logger: silent, socketFactory, requestTimeout: LIMIT_MS },
          ...{ connectionTimeout: LIMIT_MS, enforceRequestTimeout: false },
        }),
      server,
    )
  } finally {
    server.close()
  }
}

describe('a connection of the Kafka client', () => {
  it('is opened once for all requests that wait for it, and again after its end', async () => {
    let opened = 0
    await withServer(
      socket => void socket.resume(),
      async open => {
        const connection = open(at => {
          opened += 1
          return plain(at)
        })
        const outcomes = await Promise.all(Array.from({ length: 8 }, () => connection.connect()))
        expect(outcomes).to.deep.equal(Array(8).fill(true))
        await connection.connect()
        await connection.disconnect()
        expect(opened).to.equal(1)
        await connection.connect()
        await connection.disconnect()
        expect(opened).to.equal(2)
      },
    )
  })

  it('fails all of them when the broker ends it before it is ready', async () => {
    await withServer(
      socket => socket.end(),
      async open => {
        const connection = open(neverReady)
        const attempts = [connection.connect(), connection.connect()].map(attempt =>
          attempt.then(
            () => 'connected',
            (error: Error) => error.message,
          ),
        )
        for (const outcome of await within(Promise.all(attempts), LIMIT_MS, 'the end of the attempts')) {
          expect(outcome).to.match(/closed early/)
        }
      },
    )
  })
})
