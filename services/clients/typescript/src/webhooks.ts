/** Whether a delivery comes from the platform; by WebCrypto, so that it runs in Node, Deno, workers and browsers. */
import type { AlertTriggered } from './generated.ts'

export interface WebhookRequest {
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>
  /** As it arrived: parsed and written again it is another text. */
  body: string | Uint8Array
}

export interface WebhookDelivery {
  event: AlertTriggered
  /** The same at each attempt: one that was seen before is a repeat. */
  deliveryId: string
  /** Sent by `testWebhook`. */
  isTest: boolean
}

/** A delivery that is not to be believed. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError'
  readonly reason: 'signature' | 'timestamp'

  constructor(reason: 'signature' | 'timestamp') {
    super(
      reason === 'signature' ? 'no secret has made this signature' : 'the delivery is too old, or ahead of its time',
    )
    this.reason = reason
  }
}

/**
 * The event of a genuine delivery; rejects with a WebhookError for any other.
 *
 * `secrets` holds the old and the new one while a secret is rotated. `toleranceSeconds` is how far the time of the delivery may be from
 * `now`, in milliseconds. `crypto.subtle.verify` compares in constant time.
 */
export async function verifyWebhook(
  { headers, body }: WebhookRequest,
  secrets: string | readonly string[],
  { toleranceSeconds = 300, now = Date.now() }: { toleranceSeconds?: number; now?: number } = {},
): Promise<WebhookDelivery> {
  const header = (name: string): string =>
    String((headers instanceof Headers ? headers.get(name) : headers[name]) ?? '')
  const timestamp = header('x-svc-timestamp')
  const bytes = typeof body === 'string' ? encode(body) : body
  const signed = new Uint8Array([...encode(`${timestamp}.`), ...bytes])
  const signature = bytesOf(header('x-svc-signature'))
  const answers = await Promise.all([secrets].flat().map(secret => isSignedBy(secret, signature, signed)))
  if (!answers.includes(true)) throw new WebhookError('signature')
  if (!(Math.abs(now / 1000 - Number(timestamp)) <= toleranceSeconds)) throw new WebhookError('timestamp')
  return {
    event: JSON.parse(new TextDecoder().decode(bytes)),
    deliveryId: header('x-svc-delivery-id'),
    isTest: header('x-svc-test') === 'true',
  }
}

const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text)

/** Of what is no signature none, which verifies nothing. */
const bytesOf = (hex: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(/^[0-9a-f]{64}$/.test(hex) ? (hex.match(/../g) ?? []) : [], pair => Number.parseInt(pair, 16))

async function isSignedBy(
  secret: string,
  signature: Uint8Array<ArrayBuffer>,
  signed: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const key = await crypto.subtle.importKey('raw', encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
  return crypto.subtle.verify('HMAC', key, signature, signed)
}
