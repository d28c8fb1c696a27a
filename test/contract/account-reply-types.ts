/**
 * The types of all members of the replies about accounts: portfolios, inventories, keys, alerts and webhooks.
 *
 * Written by hand from the specification, and sharing nothing with schemas/api.
 */
import { CURSOR, NAMED, OFFSET, PHASE, type ReplyShape, type Shape } from './reply-shapes.ts'

const OK = { ok: 'is true' }

const STICKER = { name: 'str', slot: 'int', wear: 'num?' }
const ASSET = {
  float_value: 'num?',
  paint_seed: 'int?',
  inspect_link: 'str?',
  name_tag: 'str?',
  stickers: [STICKER],
  charms: [{ name: 'str', pattern_id: 'int?' }],
} as const
/** The two lists of an asset are null where it has none. */
const MAYBE_ASSET: Record<string, Shape> = { ...ASSET, stickers: { '?': [STICKER] }, charms: { '?': ASSET.charms } }

const PORTFOLIO = { id: 'uuid', name: 'str', item_count: 'int', created_at: 'ts', updated_at: 'ts' }
const ENTRY: Shape = {
  id: 'uuid',
  ...NAMED,
  quantity: 'count',
  source: 'one of gamestore, manual, csv',
  gamestore_assetid: 'str?',
  ...MAYBE_ASSET,
  created_at: 'ts',
}
const TRANSACTION: Shape = {
  id: 'uuid',
  ...NAMED,
  type: 'one of buy, sell',
  quantity: 'count',
  price: 'int',
  currency: 'code',
  date: 'date',
  fee_amount: 'int?',
  fee_percentage: 'num?',
  marketplace: 'str?',
  note: 'str?',
  created_at: 'ts',
  updated_at: 'ts',
}
const VALUE: Shape = {
  meta: { currency: 'code', generated_at: 'ts', providers_queried: ['provider'] },
  data: {
    line_items: [
      {
        ...NAMED,
        quantity: 'count',
        best_ask: 'int?',
        best_bid: 'int?',
        item_value: 'int?',
        image_url: 'url?',
        rarity_name: 'str?',
        rarity_color: 'colour?',
        providers: [{ provider: 'provider', lowest_ask: 'int', quantity: 'int' }],
      },
    ],
    total_value: 'int',
    items_valued: 'int',
    items_not_found: ['int'],
  },
}
const INVENTORY: Shape = {
  data: [
    {
      assetid: 'digits',
      market_hash_name: 'str',
      phase: PHASE,
      name: 'str',
      icon_url: 'str',
      tradable: 'bool',
      marketable: 'bool',
      quantity: 'count',
      ...MAYBE_ASSET,
    },
  ],
  total_count: 'int',
}

const KEY: Shape = {
  id: 'uuid',
  key_prefix: 'one of sk_live_root, sk_live_child',
  name: 'str?',
  root_key_id: 'uuid',
  is_root_key: 'bool',
  is_active: 'bool',
  created_at: 'ts',
  last_used_at: 'ts?',
  expires_at: 'ts?',
  quota_requests_per_month_override: 'int?',
  rate_requests_per_minute_override: 'int?',
  effective_quota_requests_per_month: 'int',
  effective_rate_requests_per_minute: 'int',
  scopes: { '?': ['one of market:read, feeds, portfolio, alerts, webhooks'] },
}
const CHILD_ROW: Shape = { key: KEY, requests_this_month: 'int' }
const ISSUED: Shape = { key: 'child key', key_info: KEY, message: 'str' }

const KIND = 'one of price_below, price_above, spread_exceeds'
const ALERT: Shape = {
  id: 'uuid',
  kind: KIND,
  threshold_value: 'dec',
  threshold_currency: 'code?',
  is_enabled: 'bool',
  last_triggered_at: 'ts?',
  created_at: 'ts',
  updated_at: 'ts',
  item: NAMED,
}
const PLATFORM = 'one of custom, discord, telegram, google_sheets'
const STATE = 'one of pending, succeeded, failed'
const WEBHOOK: Shape = {
  id: 'uuid',
  label: 'str',
  url: 'url',
  platform: PLATFORM,
  secret_last4: 'str',
  is_active: 'bool',
  last_success_at: 'ts?',
  last_failure_at: 'ts?',
  last_failure_message: 'str?',
  created_at: 'ts',
  updated_at: 'ts',
}
const DELIVERY = {
  id: 'uuid7',
  event_id: 'uuid7',
  endpoint_id: 'uuid',
  endpoint_label: 'str',
  endpoint_url: 'url',
  platform: PLATFORM,
  event_type: 'is alert.triggered',
  status: STATE,
  attempt_count: 'int',
  last_http_status: 'int?',
  error: 'str?',
  next_attempt_at: 'ts?',
  created_at: 'ts',
  completed_at: 'ts?',
}

/** Operation → the shape of its body. */
export const ACCOUNT_REPLIES: Record<string, ReplyShape> = {
  'POST /portfolio': PORTFOLIO,
  'GET /portfolio': { data: [PORTFOLIO] },
  'DELETE /portfolio/:id': 'no body',
  'POST /portfolio/value': VALUE,
  'GET /portfolio/:id/value': VALUE,
  'POST /portfolio/:id/import': { imported: 'int', skipped: 'int', unresolved: ['str'] },
  'POST /portfolio/:id/import/csv': {
    imported: 'int',
    skipped: 'int',
    unresolved: ['str'],
    errors: [{ row: 'int', message: 'str' }],
    price_unit: 'str',
  },
  'GET /portfolio/:id/export': 'CSV',
  'GET /portfolio/:id/items': [ENTRY],
  'POST /portfolio/:id/items': ENTRY,
  'DELETE /portfolio/:id/items/:entry_id': 'no body',
  'GET /portfolio/:id/transactions': [TRANSACTION],
  'POST /portfolio/:id/transactions': TRANSACTION,
  'PATCH /portfolio/:id/transactions/:tx_id': TRANSACTION,
  'DELETE /portfolio/:id/transactions/:tx_id': 'no body',
  'GET /portfolio/:id/history': {
    meta: {
      portfolio_id: 'uuid',
      currency: 'code',
      providers_queried: ['provider'],
      start_date: 'date',
      end_date: 'date',
      interval: 'is 1d',
      holdings_basis: 'is ledger_close',
      valuation_basis: 'is best_provider_close',
    },
    data: [{ date: 'date', total_value: 'int', positions: 'int', items_valued: 'int', items_missing_price: 'int' }],
    pagination: CURSOR,
  },
  'GET /inventory/gamestore': INVENTORY,
  'GET /inventory/gamestore/lookup': INVENTORY,
  'GET /account/key': { key: KEY },
  'POST /account/key/reissue': {
    key: 'root key',
    key_prefix: 'is sk_live_root',
    id: 'uuid',
    created_at: 'ts',
    message: 'str',
  },
  'GET /account/sub-keys': { keys: [CHILD_ROW], pagination: OFFSET },
  'POST /account/sub-keys': ISSUED,
  'GET /account/sub-keys/:id': CHILD_ROW,
  'PATCH /account/sub-keys/:id': CHILD_ROW,
  'DELETE /account/sub-keys/:id': { ...OK, key_id: 'uuid', revoked_at: 'ts' },
  'POST /account/sub-keys/:id/reissue': ISSUED,
  'POST /account/alerts': ALERT,
  'POST /account/alerts/batch': {
    created: 'int',
    failed: 'int',
    results: [
      { index: 'int', status: 'one of created, error', alert_id: 'uuid?', code: 'error code?', message: 'str?' },
    ],
  },
  'GET /account/alerts': { alerts: [ALERT], pagination: OFFSET },
  'PATCH /account/alerts/:alert_id': ALERT,
  'DELETE /account/alerts/:alert_id': OK,
  'GET /account/alerts/events': {
    events: [
      {
        id: 'uuid7',
        alert_id: 'uuid',
        kind: KIND,
        item: NAMED,
        triggered_value: 'dec',
        triggered_currency: 'code?',
        reason: 'str',
        created_at: 'ts',
        deliveries: [
          {
            channel: 'one of email, webhook',
            status: STATE,
            delivery_id: 'uuid7?',
            endpoint_id: 'uuid?',
            endpoint_label: 'str?',
            platform: `${PLATFORM}?`,
            attempt_count: 'int?',
            last_http_status: 'int?',
            next_attempt_at: 'ts?',
            error: 'str?',
            created_at: 'ts',
          },
        ],
      },
    ],
    pagination: OFFSET,
  },
  'GET /account/webhooks': { webhooks: [WEBHOOK] },
  'POST /account/webhooks': { webhook: WEBHOOK, secret: 'webhook secret' },
  'PATCH /account/webhooks/:id': WEBHOOK,
  'DELETE /account/webhooks/:id': OK,
  'POST /account/webhooks/:id/rotate-secret': { webhook: WEBHOOK, secret: 'webhook secret' },
  'GET /account/webhooks/deliveries': { deliveries: [DELIVERY], pagination: OFFSET },
  'GET /account/webhooks/deliveries/:id': {
    ...DELIVERY,
    payload: {
      id: 'uuid7',
      type: 'is alert.triggered',
      created_at: 'ts',
      data: {
        alert_id: 'uuid',
        kind: KIND,
        ...NAMED,
        threshold_value: 'dec',
        threshold_currency: 'code?',
        triggered_value: 'dec',
        triggered_currency: 'code?',
        best_ask_usd: 'dec',
        best_bid_usd: 'dec?',
        providers: { ask: 'provider', bid: 'provider?' },
      },
    },
    attempts: [
      {
        attempt_number: 'count',
        status: STATE,
        http_status: 'int?',
        error: 'str?',
        response_body_excerpt: 'str?',
        created_at: 'ts',
      },
    ],
  },
}
