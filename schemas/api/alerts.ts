/**
 * The routes of alerts: parameters, bodies and answers.
 *
 * Rules: DECISIONS.md, "Alerts". Invariant: a threshold is a decimal text greater than zero, kept and answered
 * with the places that were sent.
 */
import { z } from 'zod'
import { ALERT_KINDS, parseThreshold } from '../values/alert.ts'
import { clampedPage, optional, text, uuid, violates } from './query-values.ts'
import { instant, offsetPagination } from './reply-values.ts'

/** What the bodies depend on. */
export interface AlertScope {
  isCurrency: (code: string) => boolean
}

const BATCH_MAX = 100
const NUMBER_FORM = /^[+-]?\d+(\.\d+)?$/
const CURRENCY = 'a currency code that GET /fx lists'

const threshold = z.string().superRefine((value, context) => {
  if (parseThreshold(value) !== undefined) return
  const isNumber = NUMBER_FORM.test(value)
  if (isNumber && !(Number(value) > 0)) {
    return context.addIssue({
      code: 'custom',
      ...violates('greater_than', 'Input should be greater than 0', { gt: 0 }),
    })
  }
  const message = 'Input should be a decimal number, at most 15 digits before the point and 8 after it'
  context.addIssue({ code: 'custom', ...violates(isNumber ? 'value_error' : 'float_parsing', message) })
})

const currencyCode = ({ isCurrency }: AlertScope) =>
  z
    .string()
    .max(10)
    .refine(isCurrency, violates('enum', `Input should be ${CURRENCY}`, { expected: CURRENCY }))

/** Body of POST /account/alerts, and one entry of a batch; a spread takes any currency and ignores it. */
export const alertBody = (scope: AlertScope) =>
  z
    .strictObject({
      item_id: z.int().min(1),
      kind: z.enum(ALERT_KINDS),
      threshold_value: threshold,
      threshold_currency: optional(z.string().max(10)),
      is_enabled: z
        .boolean()
        .nullish()
        .transform(value => value ?? true),
    })
    .superRefine(({ kind, threshold_currency: code }, context) => {
      if (kind === 'spread_exceeds' || code === undefined || scope.isCurrency(code)) return
      const violation = violates('enum', `Input should be ${CURRENCY}`, { expected: CURRENCY })
      context.addIssue({ code: 'custom', path: ['threshold_currency'], ...violation })
    })

/** A parsed alert of a body. */
export type AlertBody = z.infer<ReturnType<typeof alertBody>>

/** Body of POST /account/alerts/batch. */
export const alertBatchBody = (scope: AlertScope) =>
  z.strictObject({ alerts: z.array(alertBody(scope)).min(1).max(BATCH_MAX) })

/** Body of PATCH /account/alerts/:alert_id: something at least. */
export const alertPatch = (scope: AlertScope) =>
  z
    .strictObject({
      threshold_value: optional(threshold),
      threshold_currency: optional(currencyCode(scope)),
      is_enabled: optional(z.boolean()),
    })
    .refine(
      body => Object.values(body).some(value => value !== undefined),
      violates('value_error', 'The body should name something to change'),
    )

/** Path of one alert. */
export const alertParams = z.object({ alert_id: uuid() })

/** Query of GET /account/alerts. */
export const alertsQuery = z.object({ ...clampedPage({ max: 200, otherwise: 50 }), search: text().optional() })

/** Query of GET /account/alerts/events. */
export const alertEventsQuery = z.object(clampedPage({ max: 100, otherwise: 50 }))

const item = z.strictObject({ item_id: z.int(), market_hash_name: z.string(), phase: z.string().nullable() })

const kind = z.enum(ALERT_KINDS)

/** One alert. */
export const alertReply = z.strictObject({
  id: z.uuid(),
  kind,
  threshold_value: z.string(),
  /** Null for spreads. */
  threshold_currency: z.string().nullable(),
  is_enabled: z.boolean(),
  last_triggered_at: instant.nullable(),
  created_at: instant,
  updated_at: instant,
  item,
})

/** Answer of GET /account/alerts. */
export const alertsReply = z.strictObject({ alerts: z.array(alertReply), pagination: offsetPagination })

/** Answer of POST /account/alerts/batch. */
export const alertBatchReply = z.strictObject({
  created: z.int().min(0),
  failed: z.int().min(0),
  /** In the order of the request. */
  results: z.array(
    z.strictObject({
      index: z.int().min(0),
      status: z.enum(['created', 'error']),
      alert_id: z.uuid().nullable(),
      code: z.enum(['DUPLICATE_ALERT', 'ITEM_NOT_FOUND']).nullable(),
      message: z.string().nullable(),
    }),
  ),
})

/** Answer of DELETE /account/alerts/:alert_id. */
export const deletedAlertReply = z.strictObject({ ok: z.literal(true) })

const delivery = z.strictObject({
  channel: z.enum(['email', 'webhook']),
  status: z.enum(['pending', 'succeeded', 'failed']),
  delivery_id: z.uuid().nullable(),
  endpoint_id: z.uuid().nullable(),
  endpoint_label: z.string().nullable(),
  platform: z.string().nullable(),
  attempt_count: z.int().nullable(),
  last_http_status: z.int().nullable(),
  next_attempt_at: instant.nullable(),
  error: z.string().nullable(),
  created_at: instant,
})

/** What an alert reported when it fired. */
export const alertEventReply = z.strictObject({
  id: z.uuid(),
  alert_id: z.uuid(),
  kind,
  item,
  /** The best ask in `triggered_currency`, or the spread in percent. */
  triggered_value: z.string(),
  triggered_currency: z.string().nullable(),
  reason: z.string(),
  created_at: instant,
  deliveries: z.array(delivery),
})

/** Answer of GET /account/alerts/events. */
export const alertEventsReply = z.strictObject({ events: z.array(alertEventReply), pagination: offsetPagination })
