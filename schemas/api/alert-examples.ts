/**
 * Example answers of alerts, for the API's description.
 *
 * Names are those of the description's schemas.
 */

const ALERT_ID = '019515d4-8a00-7c31-9b52-6f0de1a4c733'
const item = { item_id: 4940, market_hash_name: 'AK-47 | Redline (Field-Tested)', phase: null }
const pagination = { limit: 50, offset: 0, total: 1, has_next: false, has_prev: false }

const alert = {
  id: ALERT_ID,
  kind: 'price_below',
  threshold_value: '13.50',
  threshold_currency: 'EUR',
  is_enabled: true,
  last_triggered_at: null,
  created_at: '2026-03-01T09:00:00.000Z',
  updated_at: '2026-03-01T09:00:00.000Z',
  item,
}

/** By name of the reply. */
export const ALERT_EXAMPLES: Record<string, unknown> = {
  Alert: alert,
  AlertsReply: { alerts: [alert], pagination },
  AlertBatchReply: {
    created: 1,
    failed: 1,
    results: [
      { index: 0, status: 'created', alert_id: ALERT_ID, code: null, message: null },
      {
        index: 1,
        status: 'error',
        alert_id: null,
        code: 'DUPLICATE_ALERT',
        message: 'Repeats entry 0 of this request.',
      },
    ],
  },
  DeletedAlertReply: { ok: true },
  AlertEventsReply: {
    events: [
      {
        id: '01951d2b-11f0-7f40-a0c8-4d1a6be2f915',
        alert_id: ALERT_ID,
        kind: 'price_below',
        item,
        triggered_value: '13.42',
        triggered_currency: 'EUR',
        reason: 'The best ask of 13.42 EUR at provider_05 is below 13.50 EUR.',
        created_at: '2026-03-02T19:11:02.000Z',
        deliveries: [
          {
            channel: 'email',
            status: 'succeeded',
            delivery_id: '01951d2b-1260-7a07-8d17-0f6d2e4a9c11',
            endpoint_id: null,
            endpoint_label: null,
            platform: null,
            attempt_count: 1,
            last_http_status: null,
            next_attempt_at: null,
            error: null,
            created_at: '2026-03-02T19:11:02.100Z',
          },
        ],
      },
    ],
    pagination,
  },
}
