/**
 * Reads webhook destinations and deliveries for their account.
 *
 * Every statement names the account, so no account reads another's; the signing secret is not selected.
 */
import { HttpError } from '#infra/http/http-error.ts'
import { type Database, type Query, readPage, slicesById } from '#infra/postgres/pool.ts'
import { type Delivery, type DeliveryDetail, WEBHOOKS_MAX, type WebhookRecord } from '#schemas/api/webhooks.ts'

const WEBHOOKS = `SELECT w.id, w.label, w.url, w.platform, w.secret_last4, w.is_active, h.last_success_at, h.last_failure_at,
    h.last_failure_message, w.created_at, w.updated_at
  FROM webhooks w LEFT JOIN webhook_health h ON h.endpoint_id = w.id WHERE w.account_id = $1`

const DELIVERY = `id, event_id, endpoint_id, endpoint_label, endpoint_url, platform, event_type, status, attempt_count,
  last_http_status, error, next_attempt_at, created_at, completed_at`

export const listWebhooks = ({ rows }: Pick<Database, 'rows'>, accountId: string): Promise<WebhookRecord[]> =>
  rows(`${WEBHOOKS} ORDER BY w.id DESC LIMIT ${WEBHOOKS_MAX}`, [accountId])

/** A destination that the transaction of `query` has just written. */
export async function readWebhook(query: Query, accountId: string, id: string): Promise<WebhookRecord> {
  const [webhook] = await query<WebhookRecord>(`${WEBHOOKS} AND w.id = $2`, [accountId, id])
  if (!webhook) throw new Error('the webhook that was written is not there')
  return webhook
}

/** A page of an account's deliveries, newest first, and how many there are. */
export const listDeliveries = (
  { rows }: Pick<Database, 'rows'>,
  accountId: string,
  page: { limit: number; offset: number },
) => {
  const from = { columns: DELIVERY, source: 'webhook_deliveries WHERE account_id = $1', order: 'id DESC' }
  return readPage<Delivery>(rows, from, [accountId], page)
}

/** One statement, so as of one moment: an attempt's outcome and its delivery's state agree. */
const DETAILS = `SELECT ${DELIVERY}, body::json AS payload, (
    SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY attempt_number), '[]') FROM (
      SELECT attempt_number, status, http_status, error, response_body_excerpt,
        to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at
      FROM webhook_attempts WHERE delivery_id = webhook_deliveries.id
    ) a
  ) AS attempts
  FROM webhook_deliveries WHERE account_id = $1`

export const deliveryNotFound = (): HttpError =>
  new HttpError('DELIVERY_NOT_FOUND', 'This account has no delivery with this id.')

export async function readDelivery(
  { rows }: Pick<Database, 'rows'>,
  accountId: string,
  id: string,
): Promise<DeliveryDetail> {
  const [delivery] = await rows<DeliveryDetail>(`${DETAILS} AND id = $2`, [accountId, id])
  if (!delivery) throw deliveryNotFound()
  return delivery
}

/** Deliveries that are read at once: with bodies and excerpts of answers some kilobytes each. */
const SLICE_ROWS = 100

/** The deliveries of an account with their bodies and attempts, oldest first. */
export const deliverySlices = ({ rows }: Database, accountId: string) =>
  slicesById<DeliveryDetail>(rows, DETAILS, [accountId], SLICE_ROWS)
