/**
 * Webhook destinations and deliveries: bodies, queries and answers, and the event that is sent.
 *
 * Rules: DECISIONS.md, "Webhooks". Invariant: the signing secret is in the answers of creation and rotation
 * alone.
 */
import { z } from 'zod'
import { ALERT_KINDS } from '../values/alert.ts'
import { clampedPage, optional, text, uuid, violates } from './query-values.ts'
import { instant, offsetPagination } from './reply-values.ts'

/** What a destination is; the last two get bodies of their own. */
export const WEBHOOK_PLATFORMS = ['custom', 'google_sheets', 'discord', 'telegram'] as const

/** What a destination is. */
export type WebhookPlatform = (typeof WEBHOOK_PLATFORMS)[number]

/** Destinations that an account may have. */
export const WEBHOOKS_MAX = 20

/** Type of the one kind of event. */
export const ALERT_TRIGGERED = 'alert.triggered'

const LABEL_MAX = 100
const URL_MAX = 2_000

/** Reports a URL that leads where no webhook may go. */
export type RefusesUrl = (url: URL) => boolean

/** A URL of HTTP or HTTPS without user info, whose host spells out no forbidden address. */
const destination = (refuses: RefusesUrl) =>
  text(URL_MAX).superRefine((value, context) => {
    const fault = faultOf(value, refuses)
    if (fault !== undefined) context.addIssue({ code: 'custom', ...fault })
  })

function faultOf(value: string, refuses: RefusesUrl) {
  if (/[\s\p{Cc}]/u.test(value) || !URL.canParse(value)) return violates('url_parsing', 'Input should be a valid URL')
  const url = new URL(value)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return violates('url_parsing', 'URL should begin with http:// or https://', { expected_schemes: ['http', 'https'] })
  }
  if (url.username !== '' || url.password !== '') return violates('value_error', 'URL must not hold user info')
  return refuses(url) ? violates('value_error', 'URL must lead to a public address') : undefined
}

/** Whether a URL says which chat a telegram message is for. */
export const hasChat = (url: string): boolean => !!(URL.canParse(url) && new URL(url).searchParams.get('chat_id'))

const CHAT_MISSING = violates('value_error', 'The URL of a telegram destination must have a chat_id parameter')

/** What is wrong with the URL of a telegram destination, at its member. */
export const chatMissing = { ...CHAT_MISSING, path: ['url'] }

/** Body of POST /account/webhooks. */
export const webhookBody = (refuses: RefusesUrl) =>
  z
    .strictObject({
      label: text(LABEL_MAX),
      url: destination(refuses),
      platform: optional(z.enum(WEBHOOK_PLATFORMS)).transform(platform => platform ?? 'custom'),
      is_active: optional(z.boolean()).transform(isActive => isActive ?? true),
    })
    .refine(body => body.platform !== 'telegram' || hasChat(body.url), { ...chatMissing })

/** Parsed body of POST /account/webhooks. */
export type WebhookBody = z.infer<ReturnType<typeof webhookBody>>

/** Body of PATCH /account/webhooks/:id. */
export const webhookPatch = (refuses: RefusesUrl) =>
  z
    .strictObject({
      label: optional(text(LABEL_MAX)),
      url: optional(destination(refuses)),
      platform: optional(z.enum(WEBHOOK_PLATFORMS)),
      is_active: optional(z.boolean()),
    })
    .refine(body => Object.values(body).some(value => value !== undefined), {
      ...violates('missing', 'Field required: at least one of label, url, platform, is_active'),
      path: [],
    })

/** Parsed body of PATCH /account/webhooks/:id. */
export type WebhookPatch = z.infer<ReturnType<typeof webhookPatch>>

/** Path of one destination or delivery. */
export const webhookPath = z.object({ id: uuid() })

/** Query of GET /account/webhooks/deliveries. */
export const deliveriesQuery = z.object(clampedPage({ max: 100, otherwise: 25 }))

/** A destination. */
export const webhookRecord = z.strictObject({
  id: z.uuid(),
  label: z.string(),
  url: z.string(),
  platform: z.enum(WEBHOOK_PLATFORMS),
  secret_last4: z.string(),
  is_active: z.boolean(),
  last_success_at: instant.nullable(),
  last_failure_at: instant.nullable(),
  last_failure_message: z.string().nullable(),
  created_at: instant,
  updated_at: instant,
})

/** A destination. */
export type WebhookRecord = z.infer<typeof webhookRecord>

/** Answer of GET /account/webhooks. */
export const webhooksReply = z.strictObject({ webhooks: z.array(webhookRecord) })

/** Answer of creation and of rotate-secret: the only places that show the secret. */
export const webhookSecretReply = z.strictObject({ webhook: webhookRecord, secret: z.string() })

/** Answer of a test and of a redelivery. */
export const deliveryIdReply = z.strictObject({ delivery_id: z.uuid() })

/** Answer of DELETE /account/webhooks/:id. */
export const webhookRemovedReply = z.strictObject({ ok: z.literal(true) })

/** How far a delivery has come. */
export const DELIVERY_STATES = ['pending', 'succeeded', 'failed'] as const

const deliveryMembers = {
  id: z.uuid(),
  event_id: z.uuid(),
  endpoint_id: z.uuid(),
  endpoint_label: z.string(),
  endpoint_url: z.string(),
  platform: z.enum(WEBHOOK_PLATFORMS),
  event_type: z.literal(ALERT_TRIGGERED),
  status: z.enum(DELIVERY_STATES),
  attempt_count: z.int().min(0),
  last_http_status: z.int().nullable(),
  error: z.string().nullable(),
  next_attempt_at: instant.nullable(),
  created_at: instant,
  completed_at: instant.nullable(),
}

/** One row of the list of deliveries. */
export const delivery = z.strictObject(deliveryMembers)

/** One row of the list of deliveries. */
export type Delivery = z.infer<typeof delivery>

/** Answer of GET /account/webhooks/deliveries. */
export const deliveriesReply = z.strictObject({ deliveries: z.array(delivery), pagination: offsetPagination })

/** One attempt of a delivery; `pending` is under way. */
export const deliveryAttempt = z.strictObject({
  attempt_number: z.int().min(1),
  status: z.enum(DELIVERY_STATES),
  http_status: z.int().nullable(),
  error: z.string().nullable(),
  response_body_excerpt: z.string().nullable(),
  created_at: instant,
})

/** Answer of GET /account/webhooks/deliveries/:id. */
export const deliveryReply = z.strictObject({
  ...deliveryMembers,
  /** The JSON body that is sent. */
  payload: z.record(z.string(), z.unknown()),
  attempts: z.array(deliveryAttempt),
})

/** Answer of GET /account/webhooks/deliveries/:id. */
export type DeliveryDetail = z.infer<typeof deliveryReply>

const decimalText = z.string()

/** What custom and google_sheets destinations get. */
export const alertTriggeredBody = z.strictObject({
  id: z.uuid(),
  type: z.literal(ALERT_TRIGGERED),
  created_at: instant,
  data: z.strictObject({
    alert_id: z.uuid(),
    kind: z.enum(ALERT_KINDS),
    item_id: z.int(),
    market_hash_name: z.string(),
    phase: z.string().nullable(),
    threshold_value: decimalText,
    threshold_currency: z.string().nullable(),
    triggered_value: decimalText,
    triggered_currency: z.string().nullable(),
    best_ask_usd: decimalText,
    best_bid_usd: decimalText.nullable(),
    providers: z.strictObject({ ask: z.string(), bid: z.string().nullable() }),
  }),
})

/** What custom and google_sheets destinations get. */
export type AlertTriggeredBody = z.infer<typeof alertTriggeredBody>
