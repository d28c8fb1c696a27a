/** The event `alert.triggered` and the request that brings it. Rules: DECISIONS.md, "Webhooks". */
import { z } from 'zod'
import { ALERT_KINDS } from '../values/alert.ts'
import type { Delivered } from './operation.ts'
import { instant, itemMembers } from './reply-values.ts'

/** Type of the one kind of event. */
export const ALERT_TRIGGERED = 'alert.triggered'

/** Pauses before the second, third, ... attempt of a delivery. */
export const RETRY_PAUSES_SECONDS = [5, 30, 120, 600, 3_600, 21_600] as const

const pauseText = (seconds: number): string =>
  seconds < 60 ? `${seconds} s` : seconds < 3_600 ? `${seconds / 60} min` : `${seconds / 3_600} h`

export const alertTriggeredBody = z.strictObject({
  id: z.uuid().meta({ example: '0195a3d0-10f3-7d11-a2b4-0c9d8e7f6a5b' }),
  type: z.literal(ALERT_TRIGGERED),
  created_at: instant.meta({ example: '2026-03-03T21:41:00.000Z' }),
  data: z.strictObject({
    alert_id: z.uuid().meta({ example: '0195a3b0-2f10-7a54-9c1d-3e2f1a0b9c8d' }),
    kind: z.enum(ALERT_KINDS),
    ...itemMembers,
    threshold_value: z.string().meta({ example: '30.00' }),
    threshold_currency: z.string().nullable().meta({ example: 'USD' }),
    triggered_value: z.string().meta({ example: '29.31' }),
    triggered_currency: z.string().nullable().meta({ example: 'USD' }),
    best_ask_usd: z.string().meta({ example: '29.31' }),
    best_bid_usd: z.string().nullable().meta({ example: '27.10' }),
    providers: z
      .strictObject({ ask: z.string(), bid: z.string().nullable() })
      .meta({ example: { ask: 'provider_02', bid: 'provider_12' } }),
  }),
})

export type AlertTriggeredBody = z.infer<typeof alertTriggeredBody>

export const alertTriggered: Delivered = {
  event: ALERT_TRIGGERED,
  id: 'deliverAlertTriggered',
  group: 'Webhooks',
  summary: 'An alert was triggered',
  description:
    'Sent to each active destination of the account, at least once and always under the same delivery id. To `custom` and `google_sheets` in this form; `discord` and `telegram` are sent a message of their own form, unsigned. An attempt has 10 seconds and follows no redirect. Check the signature before the body is read, and refuse a timestamp that is minutes old.',
  headers: z.object({
    'X-SVC-Event-Type': z
      .literal(ALERT_TRIGGERED)
      .meta({ description: 'Type of the event.', example: ALERT_TRIGGERED }),
    'X-SVC-Delivery-Id': z.uuid().meta({
      description: 'Id of the delivery, the same at each attempt: one that was seen before is a repeat.',
      example: '0195a3d0-11aa-7b21-8f3c-6a5b4c3d2e1f',
    }),
    'X-SVC-Timestamp': z
      .int()
      .meta({ description: 'Unix time of the attempt, signed with the body.', example: 1772574060 }),
    'X-SVC-Signature': z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .meta({
        description:
          'Lower-case hex HMAC-SHA256 of `X-SVC-Timestamp`, a dot and the body as it arrived, keyed by the secret of the destination.',
        example: '5f2b7c4de0a1938866c1f0d7a4be29530c6e8d1f7a90b3542e6fd8c1a07b9e34',
      }),
    'X-SVC-Test': z
      .literal('true')
      .optional()
      .meta({ description: 'Of a test alone, whose `alert_id` is all zeros.', example: 'true' }),
  }),
  body: { name: 'AlertTriggered', schema: alertTriggeredBody },
  responses: {
    '2XX': 'It has arrived.',
    '4XX': '408, 409, 425 and 429 are tried again, and not before `Retry-After`; any other ends the delivery.',
    '5XX': `It is tried again after ${RETRY_PAUSES_SECONDS.slice(0, -1).map(pauseText).join(', ')} and ${pauseText(RETRY_PAUSES_SECONDS[5])}, and not before \`Retry-After\`.`,
  },
}
