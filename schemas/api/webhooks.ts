/** Rules: DECISIONS.md, "Webhooks". Only the answers of creation and of rotation hold the signing secret. */
import { z } from 'zod'
import { ALERT_TRIGGERED, alertTriggeredBody } from './alert-triggered.ts'
import { clampedPage, defaulted, namesChange, optional, text, uuid, violates } from './query-values.ts'
import { exampleOf, instant, offsetPages } from './reply-values.ts'

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

const WEBHOOK_ID = '0195a3c2-6b1e-7c40-9d2e-5f0a1b2c3d4e'
const DELIVERY_ID = '0195a3d0-11aa-7b21-8f3c-6a5b4c3d2e1f'

const NOTES = {
  label: { description: 'Name of the destination, 1 to 100 characters.', example: 'Trading bot' },
  url: {
    description: 'HTTP or HTTPS URL without user info; for telegram with a `chat_id` parameter.',
    example: 'https://bot.example.com/hooks/prices',
  },
  platform: { description: 'Kind of the destination, which decides the body that it is sent.', example: 'custom' },
  is_active: { description: 'false pauses the destination.', example: true },
}

export const webhookBody = (refuses: RefusesUrl) =>
  z
    .strictObject({
      label: text(LABEL_MAX).meta(NOTES.label),
      url: destination(refuses).meta(NOTES.url),
      platform: defaulted(z.enum(WEBHOOK_PLATFORMS), 'custom').meta(NOTES.platform),
      is_active: defaulted(z.boolean(), true).meta(NOTES.is_active),
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
    .refine(namesChange, {
      ...violates('missing', 'Field required: at least one of label, url, platform, is_active'),
      path: [],
    })

export type WebhookPatch = z.infer<ReturnType<typeof webhookPatch>>

export const webhookPath = z.object({
  id: uuid().meta({ description: 'Id of the destination or delivery.', example: WEBHOOK_ID }),
})

export const deliveriesQuery = z.object(clampedPage({ max: 100, otherwise: 25 }))

const madeAt = instant.meta({ example: '2026-03-01T09:00:00.000Z' })

export const webhookRecord = z.strictObject({
  id: z.uuid().meta({ example: WEBHOOK_ID }),
  label: z.string().meta({ example: 'Trading bot' }),
  url: z.string().meta({ example: 'https://bot.example.com/hooks/prices' }),
  platform: z.enum(WEBHOOK_PLATFORMS),
  secret_last4: z.string().meta({ example: 'k3Zw' }),
  is_active: z.boolean().meta({ example: true }),
  last_success_at: instant.nullable().meta({ example: '2026-03-03T21:41:05.310Z' }),
  last_failure_at: instant.nullable().meta({ example: '2026-03-03T21:41:00.120Z' }),
  last_failure_message: z.string().nullable().meta({ example: 'The destination answered 503.' }),
  created_at: madeAt,
  updated_at: madeAt,
})

export type WebhookRecord = z.infer<typeof webhookRecord>

export const webhooksReply = z.strictObject({ webhooks: z.array(webhookRecord) })

/** Answer of creation and of rotate-secret; the example's text was never a secret. */
export const webhookSecretReply = z.strictObject({
  webhook: webhookRecord,
  secret: z.string().meta({ example: 'whsec_YW4gZXhhbXBsZSwgbm90IGEgc2VjcmV0LCBhdCBhbGw' }),
})

export const webhookRemovedReply = z.strictObject({ ok: z.literal(true) })

const deliveryStatus = z.enum(['pending', 'succeeded', 'failed'])

const delivery = z
  .strictObject({
    id: z.uuid().meta({ example: DELIVERY_ID }),
    event_id: z.uuid().meta({ example: '0195a3d0-10f3-7d11-a2b4-0c9d8e7f6a5b' }),
    endpoint_id: webhookRecord.shape.id,
    endpoint_label: webhookRecord.shape.label,
    endpoint_url: webhookRecord.shape.url,
    platform: z.enum(WEBHOOK_PLATFORMS),
    event_type: z.literal(ALERT_TRIGGERED),
    status: deliveryStatus.meta({ example: 'succeeded' }),
    attempt_count: z.int().min(0).meta({ example: 2 }),
    last_http_status: z.int().nullable().meta({ example: 204 }),
    error: z.string().nullable(),
    next_attempt_at: instant.nullable(),
    created_at: instant.meta({ example: '2026-03-03T21:41:00.000Z' }),
    completed_at: instant.nullable().meta({ example: '2026-03-03T21:41:05.310Z' }),
  })
  .meta({ id: 'Delivery' })

export type Delivery = z.infer<typeof delivery>

export const deliveryIdReply = z.strictObject({ delivery_id: z.uuid().meta({ example: DELIVERY_ID }) })

export const deliveriesReply = z.strictObject({ deliveries: z.array(delivery), pagination: offsetPages(25) })

/** One attempt of a delivery; a `pending` one is in progress. */
const deliveryAttempt = z
  .strictObject({
    attempt_number: z.int().min(1),
    status: deliveryStatus,
    http_status: z.int().nullable(),
    error: z.string().nullable(),
    response_body_excerpt: z.string().nullable(),
    created_at: instant,
  })
  .meta({ id: 'DeliveryAttempt' })

export const deliveryReply = z.strictObject({
  ...delivery.shape,
  payload: z
    .record(z.string(), z.unknown())
    .meta({ description: 'The JSON body that is sent.', example: exampleOf(alertTriggeredBody) }),
  attempts: z.array(deliveryAttempt).meta({
    example: [
      {
        attempt_number: 1,
        status: 'failed',
        http_status: 503,
        error: 'The destination answered 503.',
        response_body_excerpt: 'upstream is restarting',
        created_at: '2026-03-03T21:41:00.000Z',
      },
      {
        attempt_number: 2,
        status: 'succeeded',
        http_status: 204,
        error: null,
        response_body_excerpt: null,
        created_at: '2026-03-03T21:41:05.310Z',
      },
    ],
  }),
})

export type DeliveryDetail = z.infer<typeof deliveryReply>
