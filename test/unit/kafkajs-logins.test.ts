/** A broker that stopped while a client logged in ended the client's role, as a wrong password does. */
import { expect } from 'chai'
import { Kafka, logLevel } from '#infra/kafka/client/kafkajs.ts'
import { refusalOf } from '#infra/kafka/refusal.ts'
import { apiVersions, int16, int32, openBroker, text } from '#test/fixtures/scripted-brokers.ts'
import { within } from '#test/harness/eventually.ts'

const [SASL_HANDSHAKE, SASL_AUTHENTICATE] = [17, 36]
const SASL_AUTHENTICATION_FAILED = 58
const REFUSED = Buffer.concat([int16(SASL_AUTHENTICATION_FAILED), text('no'), int32(0)])
/** Longer than the test. */
const NEVER_MS = 600_000

/** What a login ends with, at a broker that answers it so; undefined closes the connection instead. */
async function failureOf(mechanism: 'plain' | 'scram-sha-512', answer: Buffer | undefined): Promise<Error> {
  const broker = await openBroker(async key => {
    if (key === SASL_AUTHENTICATE) return answer
    if (key === SASL_HANDSHAKE) return Buffer.concat([int16(0), int32(1), text(mechanism.toUpperCase())])
    return apiVersions([
      [SASL_HANDSHAKE, 1],
      [SASL_AUTHENTICATE, 0],
    ])
  })
  const admin = new Kafka({
    clientId: 'login',
    brokers: [`127.0.0.1:${broker.port}`],
    logLevel: logLevel.NOTHING,
    retry: { retries: 0 },
    connectionTimeout: NEVER_MS,
    authenticationTimeout: NEVER_MS,
    requestTimeout: NEVER_MS,
    sasl: { mechanism: mechanism as 'plain', username: 'u', password: 'p' },
  }).admin()
  const connected = admin.connect().then(
    () => Promise.reject(new Error('the client logged in')),
    (error: Error) => error,
  )
  try {
    return await within(connected, 'the end of the login')
  } finally {
    await admin.disconnect()
    await broker.close()
  }
}

describe('a login of the Kafka client', () => {
  for (const mechanism of ['plain', 'scram-sha-512'] as const) {
    it(`by ${mechanism} that the broker cuts off is tried again, as any lost connection`, async () => {
      const error = await failureOf(mechanism, undefined)
      expect(refusalOf(error), String(error)).to.equal(undefined)
    })

    it(`by ${mechanism} that the broker refuses is a refusal`, async () =>
      expect(refusalOf(await failureOf(mechanism, REFUSED))).to.match(/refuses the credentials/))
  }
})
