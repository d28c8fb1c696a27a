/**
 * Example answers of webhooks, for the API's description.
 *
 * Names are those of the description's schemas; the secret was never one.
 */

const ENDPOINT_ID = '0195a3c2-6b1e-7c40-9d2e-5f0a1b2c3d4e'
const DELIVERY_ID = '0195a3d0-11aa-7b21-8f3c-6a5b4c3d2e1f'
const EVENT_ID = '0195a3d0-10f3-7d11-a2b4-0c9d8e7f6a5b'
const CREATED = '2026-03-03T21:41:00.000Z'
const DONE = '2026-03-03T21:41:05.310Z'

const webhook = {
  id: ENDPOINT_ID,
  label: 'Trading bot',
  url: 'https://bot.example.com/hooks/prices',
  platform: 'custom',
  secret_last4: 'k3Zw',
  is_active: true,
  last_success_at: DONE,
  last_failure_at: '2026-03-03T21:41:00.120Z',
  last_failure_message: 'The destination answered 503.',
  created_at: '2026-03-01T09:00:00.000Z',
  updated_at: '2026-03-01T09:00:00.000Z',
}

const withSecret = { webhook, secret: 'whsec_YW4gZXhhbXBsZSwgbm90IGEgc2VjcmV0LCBhdCBhbGw' }

const delivery = {
  id: DELIVERY_ID,
  event_id: EVENT_ID,
  endpoint_id: ENDPOINT_ID,
  endpoint_label: webhook.label,
  endpoint_url: webhook.url,
  platform: 'custom',
  event_type: 'alert.triggered',
  status: 'succeeded',
  attempt_count: 2,
  last_http_status: 204,
  error: null,
  next_attempt_at: null,
  created_at: CREATED,
  completed_at: DONE,
}

const event = {
  id: EVENT_ID,
  type: 'alert.triggered',
  created_at: CREATED,
  data: {
    alert_id: '0195a3b0-2f10-7a54-9c1d-3e2f1a0b9c8d',
    kind: 'price_below',
    item_id: 4940,
    market_hash_name: 'AK-47 | Redline (Field-Tested)',
    phase: null,
    threshold_value: '30.00',
    threshold_currency: 'USD',
    triggered_value: '29.31',
    triggered_currency: 'USD',
    best_ask_usd: '29.31',
    best_bid_usd: '27.10',
    providers: { ask: 'provider_02', bid: 'provider_12' },
  },
}

/** By name of the reply. */
export const WEBHOOK_EXAMPLES: Record<string, unknown> = {
  WebhooksReply: { webhooks: [webhook] },
  WebhookSecretReply: withSecret,
  WebhookRecord: webhook,
  WebhookRemovedReply: { ok: true },
  DeliveryIdReply: { delivery_id: DELIVERY_ID },
  DeliveriesReply: {
    deliveries: [delivery],
    pagination: { limit: 25, offset: 0, total: 1, has_next: false, has_prev: false },
  },
  DeliveryReply: {
    ...delivery,
    payload: event,
    attempts: [
      {
        attempt_number: 1,
        status: 'failed',
        http_status: 503,
        error: 'The destination answered 503.',
        response_body_excerpt: 'upstream is restarting',
        created_at: CREATED,
      },
      {
        attempt_number: 2,
        status: 'succeeded',
        http_status: 204,
        error: null,
        response_body_excerpt: null,
        created_at: DONE,
      },
    ],
  },
}
