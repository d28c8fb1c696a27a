/** Rules: DECISIONS.md, "Alerts". A threshold is a decimal text; it keeps the decimal places that were sent. */
import { z } from 'zod'
import { ALERT_KINDS, parseThreshold } from '../values/alert.ts'
import {
  clampedPage,
  currencyCode,
  defaulted,
  list,
  type MarketScope,
  namesChange,
  needsChange,
  optional,
  text,
  unlistedCurrency,
  uuid,
  violates,
} from './query-values.ts'
import { instant, itemMembers, offsetPages } from './reply-values.ts'

const BATCH_MAX = 100
const EXAMPLE_ID = '019515d4-8a00-7c31-9b52-6f0de1a4c733'
const NUMBER_FORM = /^[+-]?\d+(\.\d+)?$/

const kind = z.enum(ALERT_KINDS)

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

const THRESHOLD_NOTE = {
  description: 'Decimal text above zero: a price in major units of `threshold_currency`, or a percentage.',
  example: '13.50',
}
const CURRENCY_NOTE = {
  description: 'Currency of a price threshold, USD when left out; spreads ignore it.',
  example: 'EUR',
}
const ENABLED_NOTE = { description: 'Whether the alert waits for its condition.', example: true }

/** Body of POST /account/alerts, and one entry of a batch; for a spread the currency is ignored, not checked. */
export const alertBody = (scope: Pick<MarketScope, 'isCurrency'>) =>
  z
    .strictObject({
      item_id: z.int().min(1).meta({ description: 'Catalog id of the item.', example: 4940 }),
      kind: kind.meta({
        description: 'What to watch: the best ask below or above the threshold, or (ask - bid) / ask x 100 above it.',
        example: 'price_below',
      }),
      threshold_value: threshold.meta(THRESHOLD_NOTE),
      threshold_currency: optional(z.string().max(10)).meta(CURRENCY_NOTE),
      is_enabled: defaulted(z.boolean(), true).meta(ENABLED_NOTE),
    })
    .superRefine(({ kind, threshold_currency: code }, context) => {
      if (kind === 'spread_exceeds' || code === undefined || scope.isCurrency(code)) return
      context.addIssue({ code: 'custom', path: ['threshold_currency'], ...unlistedCurrency })
    })

export type AlertBody = z.infer<ReturnType<typeof alertBody>>

export const alertBatchBody = (scope: Pick<MarketScope, 'isCurrency'>) =>
  z.strictObject({
    alerts: list(alertBody(scope), { min: 1, max: BATCH_MAX }).meta({
      description: `1 to ${BATCH_MAX} alerts.`,
      example: [{ item_id: 4940, kind: 'price_below', threshold_value: '13.50', threshold_currency: 'EUR' }],
    }),
  })

/** Body of PATCH /account/alerts/:alert_id: at least one member. */
export const alertPatch = (scope: Pick<MarketScope, 'isCurrency'>) =>
  z
    .strictObject({
      threshold_value: optional(threshold).meta(THRESHOLD_NOTE),
      threshold_currency: optional(currencyCode(scope.isCurrency)).meta(CURRENCY_NOTE),
      is_enabled: optional(z.boolean()).meta(ENABLED_NOTE),
    })
    .refine(namesChange, needsChange)

export const alertParams = z.object({
  alert_id: uuid().meta({ description: 'Id of the alert.', example: EXAMPLE_ID }),
})

export const alertsQuery = z.object({
  ...clampedPage({ max: 200, otherwise: 50 }),
  search: text().optional().meta({ description: 'An item id, or part of a name in any case.', example: 'redline' }),
})

export const alertEventsQuery = z.object(clampedPage({ max: 100, otherwise: 50 }))

const item = z.strictObject(itemMembers).meta({ id: 'AlertItem' })
const createdAt = instant.meta({ example: '2026-03-01T09:00:00.000Z' })

export const alertReply = z.strictObject({
  id: z.uuid().meta({ example: EXAMPLE_ID }),
  kind,
  threshold_value: z.string().meta({ example: '13.50' }),
  threshold_currency: z.string().nullable().meta({ description: 'Null for spreads.', example: 'EUR' }),
  is_enabled: z.boolean().meta({ example: true }),
  last_triggered_at: instant.nullable(),
  created_at: createdAt,
  updated_at: createdAt,
  item,
})

export const alertsReply = z.strictObject({ alerts: z.array(alertReply), pagination: offsetPages(50) })

export const alertBatchReply = z.strictObject({
  created: z.int().min(0).meta({ example: 1 }),
  failed: z.int().min(0).meta({ example: 1 }),
  results: z
    .array(
      z.strictObject({
        index: z.int().min(0),
        status: z.enum(['created', 'error']),
        alert_id: z.uuid().nullable(),
        code: z.enum(['DUPLICATE_ALERT', 'ITEM_NOT_FOUND']).nullable(),
        message: z.string().nullable(),
      }),
    )
    .meta({
      description: 'In the order of the request.',
      example: [
        { index: 0, status: 'created', alert_id: EXAMPLE_ID, code: null, message: null },
        {
          index: 1,
          status: 'error',
          alert_id: null,
          code: 'DUPLICATE_ALERT',
          message: 'Repeats entry 0 of this request.',
        },
      ],
    }),
})

export const deletedAlertReply = z.strictObject({ ok: z.literal(true) })

const delivery = z
  .strictObject({
    channel: z.enum(['email', 'webhook']),
    status: z.enum(['pending', 'succeeded', 'failed']).meta({ example: 'succeeded' }),
    delivery_id: z.uuid().nullable().meta({ example: '01951d2b-1260-7a07-8d17-0f6d2e4a9c11' }),
    endpoint_id: z.uuid().nullable(),
    endpoint_label: z.string().nullable(),
    platform: z.string().nullable(),
    attempt_count: z.int().nullable().meta({ example: 1 }),
    last_http_status: z.int().nullable(),
    next_attempt_at: instant.nullable(),
    error: z.string().nullable(),
    created_at: instant.meta({ example: '2026-03-02T19:11:02.100Z' }),
  })
  .meta({ id: 'AlertDelivery' })

/** Reported when an alert fired. */
export const alertEventReply = z
  .strictObject({
    id: z.uuid().meta({ example: '01951d2b-11f0-7f40-a0c8-4d1a6be2f915' }),
    alert_id: z.uuid().meta({ example: EXAMPLE_ID }),
    kind,
    item,
    triggered_value: z
      .string()
      .meta({ description: 'The best ask in `triggered_currency`, or the spread in percent.', example: '13.42' }),
    triggered_currency: z.string().nullable().meta({ example: 'EUR' }),
    reason: z.string().meta({ example: 'The best ask of 13.42 EUR at provider_05 is below 13.50 EUR.' }),
    created_at: instant.meta({ example: '2026-03-02T19:11:02.000Z' }),
    deliveries: z.array(delivery),
  })
  .meta({ id: 'AlertEvent' })

export const alertEventsReply = z.strictObject({ events: z.array(alertEventReply), pagination: offsetPages(50) })
