/**
 * Requests that found a connection closed opened a socket each, and all but the last stayed open until the process ended. A
 * response that was cut off made its connection useless for good: a reader that fetched whole megabytes while a broker was killed
 * never got an answer from that broker again.
 */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { expect } from 'chai'
import { loadInternal } from '#infra/kafka/client/internals.ts'
import { Encoder } from '#infra/kafka/client/wire.ts'
// Installs the corrections.
import '#infra/kafka/client/kafkajs.ts'
import { within } from '#test/harness/eventually.ts'
import { listen } from '#test/harness/listen.ts'

interface Connection {
  socket: Socket | null
  connect(): Promise<boolean>
  disconnect(): Promise<boolean>
  send(exchange: object): Promise<Buffer>
}

type SocketFactory = (at: { host: string; port: number; onConnect(): void }) => Socket

/** Longer than any of the tests. */
const NEVER_MS = 600_000
const CONNECT_MS = 300
const API_VERSIONS = 18
const HEADER_BYTES = 8
const silent = { namespace: () => silent, debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const plain: SocketFactory = ({ host, port, onConnect }) => connect(port, host, onConnect)
/** As with TLS: the socket is connected before the connection is ready, which this one never is. */
const neverReady: SocketFactory = ({ host, port }) => connect(port, host)

/** A request that needs no login, and its answer as it came. */
const exchange = {
  request: { apiKey: API_VERSIONS, apiName: 'ApiVersions', apiVersion: 0, encode: async () => new Encoder() },
  response: { decode: async (bytes: Buffer) => bytes, parse: async (bytes: Buffer) => bytes },
}

/** The answer to a request that came whole: its size, its number, and what it says. */
function answerTo(request: Buffer, says: string): Buffer {
  const answer = Buffer.concat([Buffer.alloc(HEADER_BYTES), Buffer.from(says)])
  answer.writeInt32BE(answer.length - 4, 0)
  request.copy(answer, 4, 8, 12)
  return answer
}

async function withServer(
  onSocket: (socket: Socket) => void,
  use: (open: (socketFactory: SocketFactory, connectMs?: number) => Connection) => Promise<void>,
): Promise<void> {
  const server = createServer(onSocket)
  const { port } = await listen(server)
  const Connection = loadInternal('network/connection') as new (options: object) => Connection
  try {
    await use((socketFactory, connectionTimeout = NEVER_MS) => {
      const timing = { requestTimeout: NEVER_MS, connectionTimeout, enforceRequestTimeout: false }
      return new Connection({ host: '127.0.0.1', port, logger: silent, socketFactory, ...timing })
    })
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
        for (const outcome of await within(Promise.all(attempts), 'the end of the attempts')) {
          expect(outcome).to.match(/closed early/)
        }
      },
    )
  })

  it('gets its answers after one that was cut off in its midst', async () => {
    const cuts = ['after the size', 'within a large answer']
    let opened = 0
    await withServer(
      socket => {
        opened += 1
        const cut = cuts[opened - 1]
        socket.on('data', request => {
          const answer = answerTo(request, cut ? 'x'.repeat(100_000) : 'whole')
          if (cut === undefined) socket.write(answer)
          else socket.write(answer.subarray(0, cut === cuts[0] ? 4 : 50_000), () => socket.resetAndDestroy())
        })
      },
      async open => {
        const connection = open(plain)
        for (const cut of cuts) {
          await connection.connect()
          const outcome = connection.send(exchange).then(String, (error: Error) => error.message)
          expect(await within(outcome, `the end of the request ${cut}`)).to.match(/ECONNRESET|[Cc]losed/)
        }
        await connection.connect()
        expect(String(await within(connection.send(exchange), 'the answer'))).to.equal('whole')
        await connection.disconnect()
      },
    )
  })

  it('closes a socket that is not ready in time', async () => {
    const sockets: Socket[] = []
    await withServer(
      socket => void sockets.push(socket.pause()),
      async open => {
        const opened: Socket[] = []
        const connection = open(at => {
          opened.push(neverReady(at))
          return opened.at(-1) as Socket
        }, CONNECT_MS)
        const outcome = connection.connect().then(String, (error: Error) => error.message)
        expect(await within(outcome, 'the end of the attempt')).to.equal('Connection timeout')
        expect(opened.map(({ destroyed }) => destroyed)).to.deep.equal([true])
        for (const socket of sockets) socket.destroy()
      },
    )
  })

  it('adds no listeners to a closed socket, however often it is disconnected', async () => {
    await withServer(
      socket => void socket.resume(),
      async open => {
        const connection = open(plain)
        await connection.connect()
        const socket = connection.socket as Socket
        socket.destroy()
        await once(socket, 'close')
        for (let times = 0; times < 12; times++) await connection.disconnect()
        expect(socket.listenerCount('connect')).to.equal(0)
      },
    )
  })
})
