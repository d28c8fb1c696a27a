/**
 * What a client may ask of deliveries: cancel, resume, test, deliver again. Called by services/api.
 *
 * Writes webhook_deliveries and adds jobs within the caller's transaction. Invariant: a delivery that is repeated keeps its
 * id, so its receiver recognizes the repeat; it is sent to the destination's current URL, with new attempts.
 */
import type { Query } from '#infra/postgres/pool.ts'
import type { UuidSource } from '#infra/runtime/uuid-v7.ts'
import { ALERT_TRIGGERED, type AlertTriggeredBody } from '#schemas/api/webhooks.ts'
import { queueDestination } from './delivery-jobs.ts'
import { cancelDeliveries } from './delivery-store.ts'
import { bodyFor } from './event-body.ts'
import { addDeliveries, type DeliveryTarget } from './fan-out.ts'

/** Why a delivery is not made. */
export type DeliveryRefusal = 'no destination' | 'no delivery' | 'paused'

/** The item of a test event. */
export interface TestSubject {
  item_id: number
  market_hash_name: string
  phase: string | null
}

const NO_ALERT = '00000000-0000-0000-0000-000000000000'

/** Cancels what is pending to a destination that is being removed, and deletes its health. */
export async function forgetDestination(query: Query, endpointId: string): Promise<void> {
  await cancelDeliveries(query, endpointId)
  await query('DELETE FROM webhook_health WHERE endpoint_id = $1', [endpointId])
}

/** Makes what waited for a paused destination due. */
export async function resumeDestination(query: Query, endpointId: string): Promise<void> {
  const waiting = await query(
    `UPDATE webhook_deliveries SET next_attempt_at = now()
      WHERE endpoint_id = $1 AND status = 'pending' AND next_attempt_at IS NULL RETURNING id`,
    [endpointId],
  )
  if (waiting.length > 0) await queueDestination(query, endpointId)
}

/** Sends a made-up event to a destination; returns the delivery's id. */
export async function requestTest(
  query: Query,
  accountId: string,
  endpointId: string,
  options: { subject: TestSubject; newId: UuidSource; now: number },
): Promise<{ deliveryId: string } | { refusal: DeliveryRefusal }> {
  const target = await targetOf(query, accountId, endpointId)
  if (typeof target === 'string') return { refusal: target }
  const event = testEvent(options.newId(options.now), options.subject, options.now)
  const [deliveryId = ''] = await addDeliveries(query, event, [target], { ...options, isTest: true })
  await queueDestination(query, endpointId)
  return { deliveryId }
}

/** Repeats a delivery; one that waits for its next attempt is attempted at once. */
export async function requestRedelivery(
  query: Query,
  accountId: string,
  deliveryId: string,
): Promise<{ deliveryId: string } | { refusal: DeliveryRefusal }> {
  const [found] = await query<{ endpoint_id: string; event: string }>(
    'SELECT endpoint_id, event FROM webhook_deliveries WHERE account_id = $1 AND id = $2',
    [accountId, deliveryId],
  )
  if (!found) return { refusal: 'no delivery' }
  // Its destination is locked before it, here as everywhere: the other order could end in a deadlock.
  const target = await targetOf(query, accountId, found.endpoint_id)
  if (typeof target === 'string') return { refusal: target }
  const { label, url, platform } = target
  await query(
    `UPDATE webhook_deliveries SET status = 'pending', failures = 0, next_attempt_at = now(), completed_at = NULL,
        endpoint_label = $2, endpoint_url = $3, platform = $4, body = $5 WHERE id = $1`,
    [deliveryId, label, url, platform, bodyFor(platform, url, JSON.parse(found.event) as AlertTriggeredBody)],
  )
  await queueDestination(query, found.endpoint_id)
  return { deliveryId }
}

/** The current destination; locked until the commit, so that no pause or removal comes between. */
async function targetOf(
  query: Query,
  accountId: string,
  endpointId: string,
): Promise<DeliveryTarget | 'no destination' | 'paused'> {
  const [target] = await query<DeliveryTarget & { is_active: boolean }>(
    'SELECT id, account_id, label, url, platform, is_active FROM webhooks WHERE account_id = $1 AND id = $2 FOR SHARE',
    [accountId, endpointId],
  )
  if (!target) return 'no destination'
  return target.is_active ? target : 'paused'
}

function testEvent(id: string, subject: TestSubject, now: number): AlertTriggeredBody {
  return {
    id,
    type: ALERT_TRIGGERED,
    created_at: new Date(now).toISOString(),
    data: {
      alert_id: NO_ALERT,
      kind: 'price_below',
      ...subject,
      threshold_value: '10.00',
      threshold_currency: 'USD',
      triggered_value: '9.50',
      triggered_currency: 'USD',
      best_ask_usd: '9.50',
      best_bid_usd: '9.10',
      providers: { ask: 'provider_01', bid: 'provider_02' },
    },
  }
}
