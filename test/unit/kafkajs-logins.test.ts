/** A broker that stopped while a client logged in ended the client's role, as a wrong password does. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { expect } from 'chai'
import { Kafka, logLevel } from '#infra/kafka/client/kafkajs.ts'
import { refusalOf } from '#infra/kafka/refusal.ts'
import { within } from '#test/harness/eventually.ts'

const SASL_HANDSHAKE = 17
const API_VERSIONS = 18
const SASL_AUTHENTICATE = 36
/** Version by key. */
const SERVED: [key: number, version: number][] = [
  [SASL_HANDSHAKE, 1],
  [API_VERSIONS, 0],
  [SASL_AUTHENTICATE, 0],
]
const SASL_AUTHENTICATION_FAILED = 58
/** Longer than the test. */
const NEVER_MS = 600_000

const int16 = (value: number): Buffer => Buffer.of((value >> 8) & 0xff, value & 0xff)
const int32 = (value: number): Buffer => Buffer.concat([int16(value >>> 16), int16(value & 0xffff)])
const text = (value: string): Buffer => Buffer.concat([int16(value.length), Buffer.from(value)])
const listed = (items: Buffer[]): Buffer => Buffer.concat([int32(items.length), ...items])

/** A broker up to its answer to a login: undefined closes the connection instead. */
async function withBroker(
  mechanism: string,
  login: () => Buffer | undefined,
  use: (address: string) => Promise<void>,
): Promise<void> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('data', request => {
      const [key, correlation] = [request.readInt16BE(4), request.subarray(8, 12)]
      const answer = answerOf(key)
      if (answer === undefined) socket.destroy()
      else socket.write(Buffer.concat([int32(4 + answer.length), correlation, answer]))
    })
  })
  function answerOf(key: number): Buffer | undefined {
    if (key === SASL_HANDSHAKE) return Buffer.concat([int16(0), listed([text(mechanism)])])
    if (key === SASL_AUTHENTICATE) return login()
    const versions = SERVED.map(([served, version]) => Buffer.concat([served, version, version].map(int16)))
    return Buffer.concat([int16(0), listed(versions)])
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    await use(`127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
}

describe('a login of the Kafka client', () => {
  for (const mechanism of ['plain', 'scram-sha-512'] as const) {
    const failure = (address: string): Promise<Error> => {
      const admin = new Kafka({
        clientId: 'login',
        brokers: [address],
        logLevel: logLevel.NOTHING,
        retry: { retries: 0 },
        ...{ connectionTimeout: NEVER_MS, authenticationTimeout: NEVER_MS, requestTimeout: NEVER_MS },
        sasl: { mechanism, username: 'u', password: 'p' } as { mechanism: 'plain'; username: string; password: string },
      }).admin()
      const connected = admin.connect().then(
        () => Promise.reject(new Error('the client logged in')),
        (error: Error) => error,
      )
      return within(connected, 'the end of the login').finally(() => admin.disconnect())
    }

    it(`by ${mechanism} that the broker cuts off is tried again, as any lost connection`, async () => {
      await withBroker(
        mechanism.toUpperCase(),
        () => undefined,
        async address => {
          const error = await failure(address)
          expect(refusalOf(error), String(error)).to.equal(undefined)
        },
      )
    })

    it(`by ${mechanism} that the broker refuses is a refusal`, async () => {
      const refused = Buffer.concat([int16(SASL_AUTHENTICATION_FAILED), text('no'), int32(0)])
      await withBroker(
        mechanism.toUpperCase(),
        () => refused,
        async address => {
          expect(refusalOf(await failure(address))).to.match(/refuses the credentials/)
        },
      )
    })
  }
})
