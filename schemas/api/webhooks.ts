/**
 * Webhook destinations and their deliveries. Rules: DECISIONS.md, "Webhooks". Only the answers of creation and of rotation hold the
 * signing secret.
 */
import { z } from 'zod'
import { ALERT_TRIGGERED, alertTriggeredBody } from './alert-triggered.ts'
import { clampedPage, optional, text, uuid, violates } from './query-values.ts'
import { examplePage, instant, offsetPagination } from './reply-values.ts'

/** Kinds of destination; the last two are sent bodies of their own form. */
const WEBHOOK_PLATFORMS = ['custom', 'google_sheets', 'discord', 'telegram'] as const

export type WebhookPlatform = (typeof WEBHOOK_PLATFORMS)[number]

/** Destinations that an account may have. */
export const WEBHOOKS_MAX = 20

const LABEL_MAX = 100
const URL_MAX = 2_000

/** Whether a URL leads to an address that webhooks must not reach. */
export type RefusesUrl = (url: URL) => boolean

/** A URL of HTTP or HTTPS without user info, whose host is neither a forbidden address nor a local name. */
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

/** Whether a URL names the chat of a telegram message. */
export const hasChat = (url: string): boolean => !!(URL.canParse(url) && new URL(url).searchParams.get('chat_id'))

const CHAT_MISSING = violates('value_error', 'The URL of a telegram destination must have a chat_id parameter')

/** The violation of the URL of a telegram destination, at its member. */
export const chatMissing = { ...CHAT_MISSING, path: ['url'] }

const exampleWebhook = {
  id: '0195a3c2-6b1e-7c40-9d2e-5f0a1b2c3d4e',
  label: 'Trading bot',
  url: 'https://bot.example.com/hooks/prices',
  platform: 'custom',
  secret_last4: 'k3Zw',
  is_active: true,
  last_success_at: '2026-03-03T21:41:05.310Z',
  last_failure_at: '2026-03-03T21:41:00.120Z',
  last_failure_message: 'The destination answered 503.',
  created_at: '2026-03-01T09:00:00.000Z',
  updated_at: '2026-03-01T09:00:00.000Z',
}

const NOTES = {
  label: { description: 'Name of the destination, 1 to 100 characters.', example: exampleWebhook.label },
  url: {
    description: 'HTTP or HTTPS URL without user info; for telegram with a `chat_id` parameter.',
    example: exampleWebhook.url,
  },
  platform: { description: 'Kind of the destination, which decides the body that it is sent.', example: 'custom' },
  is_active: { description: 'false pauses the destination.', example: true },
}

export const webhookBody = (refuses: RefusesUrl) =>
  z
    .strictObject({
      label: text(LABEL_MAX).meta(NOTES.label),
      url: destination(refuses).meta(NOTES.url),
      platform: optional(z.enum(WEBHOOK_PLATFORMS))
        .transform(platform => platform ?? 'custom')
        .meta(NOTES.platform),
      is_active: optional(z.boolean())
        .transform(isActive => isActive ?? true)
        .meta(NOTES.is_active),
    })
    .refine(body => body.platform !== 'telegram' || hasChat(body.url), { ...chatMissing })

export type WebhookBody = z.infer<ReturnType<typeof webhookBody>>

export const webhookPatch = (refuses: RefusesUrl) =>
  z
    .strictObject({
      label: optional(text(LABEL_MAX)).meta(NOTES.label),
      url: optional(destination(refuses)).meta(NOTES.url),
      platform: optional(z.enum(WEBHOOK_PLATFORMS)).meta(NOTES.platform),
      is_active: optional(z.boolean()).meta(NOTES.is_active),
    })
    .refine(body => Object.values(body).some(value => value !== undefined), {
      ...violates('missing', 'Field required: at least one of label, url, platform, is_active'),
      path: [],
    })

export type WebhookPatch = z.infer<ReturnType<typeof webhookPatch>>

export const webhookPath = z.object({
  id: uuid().meta({ description: 'Id of the destination or delivery.', example: exampleWebhook.id }),
})

export const deliveriesQuery = z.object(clampedPage({ max: 100, otherwise: 25 }))

export const webhookRecord = z
  .strictObject({
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
  .meta({ example: exampleWebhook })

export type WebhookRecord = z.infer<typeof webhookRecord>

export const webhooksReply = z
  .strictObject({ webhooks: z.array(webhookRecord) })
  .meta({ example: { webhooks: [exampleWebhook] } })

/** Answer of creation and of rotate-secret; the example's text was never a secret. */
export const webhookSecretReply = z
  .strictObject({ webhook: webhookRecord, secret: z.string() })
  .meta({ example: { webhook: exampleWebhook, secret: 'whsec_YW4gZXhhbXBsZSwgbm90IGEgc2VjcmV0LCBhdCBhbGw' } })

export const webhookRemovedReply = z.strictObject({ ok: z.literal(true) }).meta({ example: { ok: true } })

/** How far a delivery has come. */
const DELIVERY_STATES = ['pending', 'succeeded', 'failed'] as const

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

const exampleDelivery = {
  id: '0195a3d0-11aa-7b21-8f3c-6a5b4c3d2e1f',
  event_id: '0195a3d0-10f3-7d11-a2b4-0c9d8e7f6a5b',
  endpoint_id: exampleWebhook.id,
  endpoint_label: exampleWebhook.label,
  endpoint_url: exampleWebhook.url,
  platform: 'custom',
  event_type: ALERT_TRIGGERED,
  status: 'succeeded',
  attempt_count: 2,
  last_http_status: 204,
  error: null,
  next_attempt_at: null,
  created_at: '2026-03-03T21:41:00.000Z',
  completed_at: '2026-03-03T21:41:05.310Z',
}

export const deliveryIdReply = z
  .strictObject({ delivery_id: z.uuid() })
  .meta({ example: { delivery_id: exampleDelivery.id } })

const delivery = z.strictObject(deliveryMembers).meta({ id: 'Delivery' })

export type Delivery = z.infer<typeof delivery>

export const deliveriesReply = z
  .strictObject({ deliveries: z.array(delivery), pagination: offsetPagination })
  .meta({ example: { deliveries: [exampleDelivery], pagination: examplePage(25) } })

/** One attempt of a delivery; a `pending` one is in progress. */
const deliveryAttempt = z
  .strictObject({
    attempt_number: z.int().min(1),
    status: z.enum(DELIVERY_STATES),
    http_status: z.int().nullable(),
    error: z.string().nullable(),
    response_body_excerpt: z.string().nullable(),
    created_at: instant,
  })
  .meta({ id: 'DeliveryAttempt' })

export const deliveryReply = z
  .strictObject({
    ...deliveryMembers,
    payload: z.record(z.string(), z.unknown()).describe('The JSON body that is sent.'),
    attempts: z.array(deliveryAttempt),
  })
  .meta({
    example: {
      ...exampleDelivery,
      payload: alertTriggeredBody.meta()?.example,
      attempts: [
        {
          attempt_number: 1,
          status: 'failed',
          http_status: 503,
          error: 'The destination answered 503.',
          response_body_excerpt: 'upstream is restarting',
          created_at: exampleDelivery.created_at,
        },
        {
          attempt_number: 2,
          status: 'succeeded',
          http_status: 204,
          error: null,
          response_body_excerpt: null,
          created_at: exampleDelivery.completed_at,
        },
      ],
    },
  })

export type DeliveryDetail = z.infer<typeof deliveryReply>
