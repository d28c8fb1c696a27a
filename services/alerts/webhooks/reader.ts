/**
 * Reads webhook destinations and deliveries for their account.
 *
 * Every statement names the account, so no account reads another's; the signing secret is not selected. Times leave the
 * database as milliseconds and the answer as ISO 8601.
 */
import type { Database, Query } from '#infra/postgres/pool.ts'
import { slicesById } from '#infra/postgres/slices.ts'
import { type Delivery, type DeliveryDetail, WEBHOOKS_MAX, type WebhookRecord } from '#schemas/api/webhooks.ts'

const WEBHOOK = `w.id, w.label, w.url, w.platform, w.secret_last4, w.is_active, h.last_success_at, h.last_failure_at,
  h.last_failure_message, w.created_at, w.updated_at`

const DELIVERY = `id, event_id, endpoint_id, endpoint_label, endpoint_url, platform, event_type, status, attempt_count,
  last_http_status, error, next_attempt_at, created_at, completed_at`

/** A row of Postgres: times are Date objects, which JSON writes as ISO 8601 with milliseconds. */
type Row<T> = { [K in keyof T]: T[K] extends string | null ? T[K] | Date : T[K] }

/** All destinations of an account, newest first. */
export async function listWebhooks({ rows }: Pick<Database, 'rows'>, accountId: string): Promise<WebhookRecord[]> {
  const webhooks = await rows<Row<WebhookRecord>>(
    `SELECT ${WEBHOOK} FROM webhooks w LEFT JOIN webhook_health h ON h.endpoint_id = w.id
      WHERE w.account_id = $1 ORDER BY w.id DESC LIMIT ${WEBHOOKS_MAX}`,
    [accountId],
  )
  return webhooks.map(plain<WebhookRecord>)
}

/** One destination of an account. */
export async function readWebhook(query: Query, accountId: string, id: string): Promise<WebhookRecord | undefined> {
  const [row] = await query<Row<WebhookRecord>>(
    `SELECT ${WEBHOOK} FROM webhooks w LEFT JOIN webhook_health h ON h.endpoint_id = w.id
      WHERE w.account_id = $1 AND w.id = $2`,
    [accountId, id],
  )
  return row && plain<WebhookRecord>(row)
}

/** A page of an account's deliveries, newest first, and how many there are. */
export async function listDeliveries(
  { rows }: Pick<Database, 'rows'>,
  accountId: string,
  page: { limit: number; offset: number },
): Promise<{ deliveries: Delivery[]; total: number }> {
  const [counts, deliveries] = await Promise.all([
    rows<{ total: number }>('SELECT count(*)::int AS total FROM webhook_deliveries WHERE account_id = $1', [accountId]),
    rows<Row<Delivery>>(
      `SELECT ${DELIVERY} FROM webhook_deliveries WHERE account_id = $1 ORDER BY id DESC LIMIT $2 OFFSET $3`,
      [accountId, page.limit, page.offset],
    ),
  ])
  return { deliveries: deliveries.map(plain<Delivery>), total: counts[0]?.total ?? 0 }
}

/** One statement, so as of one moment: an attempt's outcome and its delivery's state agree. */
const DETAILS = `SELECT ${DELIVERY}, body, (
    SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY attempt_number), '[]') FROM (
      SELECT attempt_number, status, http_status, error, response_body_excerpt, created_at FROM webhook_attempts
      WHERE delivery_id = webhook_deliveries.id
    ) a
  ) AS attempts
  FROM webhook_deliveries WHERE account_id = $1`

type DetailRow = Row<Delivery> & { id: string; body: string; attempts: DeliveryDetail['attempts'] }

/** One delivery of an account with its body and its attempts. */
export async function readDelivery(
  { rows }: Pick<Database, 'rows'>,
  accountId: string,
  id: string,
): Promise<DeliveryDetail | undefined> {
  const [row] = await rows<DetailRow>(`${DETAILS} AND id = $2`, [accountId, id])
  return row && detailOf(row)
}

/** Deliveries that are read at once: with bodies and excerpts of answers some kilobytes each. */
const SLICE_ROWS = 100

/** The deliveries of an account with their bodies and attempts, oldest first. */
export async function* deliverySlices({ rows }: Database, accountId: string): AsyncGenerator<DeliveryDetail[]> {
  const slices = slicesById<DetailRow>(rows, DETAILS, { values: [accountId], rows: SLICE_ROWS })
  for await (const slice of slices) yield slice.map(detailOf)
}

function detailOf({ body, attempts, ...members }: DetailRow): DeliveryDetail {
  return {
    ...plain<Delivery>(members),
    payload: JSON.parse(body),
    attempts: attempts.map(attempt => ({ ...attempt, created_at: new Date(attempt.created_at).toISOString() })),
  }
}

function plain<T>(row: object): T {
  const members = Object.entries(row).map(([name, value]) => [
    name,
    value instanceof Date ? value.toISOString() : value,
  ])
  return Object.fromEntries(members) as T
}
