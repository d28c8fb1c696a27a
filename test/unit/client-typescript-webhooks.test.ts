/** Signatures by Node's own HMAC; the platform's are verified in integration/webhook-states.test.ts. */
import { createHmac } from 'node:crypto'
import { expect } from 'chai'
import fc from 'fast-check'
import { verifyWebhook, type WebhookError } from '#services/clients/typescript/src/webhooks.ts'

const SECRET = 'whsec_a'
const NOW = 1_772_574_060_000
const BODY = '{"type":"alert.triggered","data":{"market_hash_name":"★ Karambit"}}'

const signatureOf = (secret: string, timestamp: string, body: string): string =>
  createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')

function delivery({ secret = SECRET, body = BODY, timestamp = String(NOW / 1000), ...headers } = {}) {
  return {
    body,
    headers: {
      'x-svc-timestamp': timestamp,
      'x-svc-signature': signatureOf(secret, timestamp, body),
      'x-svc-delivery-id': 'd1',
      ...headers,
    } as Record<string, string>,
  }
}

const reasonOf = (request: ReturnType<typeof delivery>, now = NOW): Promise<unknown> =>
  verifyWebhook(request, SECRET, { now }).catch(error => (error as WebhookError).reason)

describe('a delivery to the TypeScript client', () => {
  it('is believed with the signature of the secret, as text or bytes, with headers of any kind', async () => {
    const { headers, body } = delivery()
    const expected = { event: JSON.parse(BODY), deliveryId: 'd1', isTest: false }
    for (const request of [
      { headers, body },
      { headers: new Headers(headers), body },
      { headers, body: new TextEncoder().encode(body) },
    ])
      expect(await verifyWebhook(request, SECRET, { now: NOW })).to.deep.equal(expected)
  })

  it('is believed with the old and with the new secret while that is rotated', async () => {
    for (const secret of ['whsec_old', 'whsec_new'])
      expect(await verifyWebhook(delivery({ secret }), ['whsec_old', 'whsec_new'], { now: NOW })).to.include({
        deliveryId: 'd1',
      })
  })

  it('is refused with any other signature, body or time', async () => {
    const genuine = delivery()
    for (const request of [
      delivery({ secret: 'whsec_b' }),
      { ...genuine, body: `${BODY} ` },
      { ...genuine, headers: { ...genuine.headers, 'x-svc-timestamp': String(NOW / 1000 + 1) } },
      { ...genuine, headers: {} },
      { ...genuine, headers: { ...genuine.headers, 'x-svc-signature': genuine.headers['x-svc-signature']?.slice(2) } },
      {
        ...genuine,
        headers: { ...genuine.headers, 'x-svc-signature': genuine.headers['x-svc-signature']?.toUpperCase() },
      },
    ])
      expect(await reasonOf(request as typeof genuine), JSON.stringify(request)).to.equal('signature')
  })

  it('is refused where one digit of its signature is another', () =>
    fc.assert(
      fc.asyncProperty(fc.nat(63), fc.integer({ min: 1, max: 15 }), async (at, by) => {
        const { headers, body } = delivery()
        const signature = headers['x-svc-signature'] as string
        const digit = ((Number.parseInt(signature.charAt(at), 16) + by) % 16).toString(16)
        const forged = signature.slice(0, at) + digit + signature.slice(at + 1)
        expect(await reasonOf({ body, headers: { ...headers, 'x-svc-signature': forged } })).to.equal('signature')
      }),
    ))

  it('is refused more than five minutes before and after its time', async () => {
    for (const seconds of [300, -300])
      expect(await reasonOf(delivery(), NOW + seconds * 1000)).to.have.property('deliveryId')
    for (const seconds of [301, -301]) expect(await reasonOf(delivery(), NOW + seconds * 1000)).to.equal('timestamp')
    const timestamp = 'soon'
    expect(await reasonOf(delivery({ timestamp }))).to.equal('timestamp')
  })
})
