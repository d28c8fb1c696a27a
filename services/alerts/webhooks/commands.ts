/**
 * Changes of webhook destinations, and deliveries that a client asks for, within the transaction of the caller.
 *
 * Sole writer of webhooks; writes webhook_deliveries through delivery/ and by itself. States of a destination: active <->
 * paused, any -> removed. Invariant: the account's row is locked first, so it never has more destinations than allowed; the
 * secret's text exists in the returned value and, sealed, in the row; another account's destination is not found. A delivery
 * that is repeated keeps its id, so its receiver recognizes the repeat; it is sent to the current URL, with new attempts.
 */
import { randomBytes } from 'node:crypto'
import { HttpError } from '#infra/http/http-error.ts'
import { countRows, type Query } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { type AlertTriggeredBody, alertTriggeredBody } from '#schemas/api/alert-triggered.ts'
import { exampleOf } from '#schemas/api/reply-values.ts'
import { chatMissing, hasChat, WEBHOOKS_MAX, type WebhookBody, type WebhookPatch } from '#schemas/api/webhooks.ts'
import { type Origin, recordAction } from '#services/accounts/audit/commands.ts'
import { lockAccount } from '#services/accounts/commands.ts'
import { bodyFor } from '../delivery/event-body.ts'
import { addDeliveries, type DeliveryTarget } from '../delivery/fan-out.ts'
import { cancelDeliveries, queueDestination, removeDeliveries } from '../delivery/store.ts'
import { deliveryNotFound } from './reader.ts'

/** A new secret, the only copy of its text, and the destination that signs with it. */
export type IssuedSecret = Awaited<ReturnType<typeof rotateWebhookSecret>>

/** Who changes a destination, and when. */
export interface WebhookActor extends Origin {
  /** Milliseconds since the epoch. */
  now: number
}

const SECRET_BYTES = 32

const newId = openUuidSource()
const newSecret = (): string => `whsec_${randomBytes(SECRET_BYTES).toString('base64url')}`

/** Creates a destination; refuses the one after the last that is allowed. */
export async function createWebhook(
  query: Query,
  actor: WebhookActor,
  body: WebhookBody,
  box: SealedBox,
): Promise<IssuedSecret> {
  const { accountId, now } = actor
  await lockAccount(query, accountId)
  if ((await countRows(query, 'webhooks WHERE account_id = $1', [accountId])) >= WEBHOOKS_MAX) {
    throw new HttpError('WEBHOOK_LIMIT_REACHED', `An account has ${WEBHOOKS_MAX} webhooks at most; delete one first.`)
  }
  const [id, secret] = [newId(now), newSecret()]
  await query(
    `INSERT INTO webhooks (id, account_id, label, url, platform, sealed_secret, secret_last4, is_active, created_at, updated_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)`,
    [id, accountId, body.label, body.url, body.platform, ...sealed(box, id, secret), body.is_active, new Date(now)],
  )
  await recordAction(query, actor, { kind: 'webhook.created', at: now, detail: { webhook_id: id } })
  return { id, secret }
}

/** Changes a destination; what is left out stays. What waited for a paused one that is active again becomes due. */
export async function changeWebhook(query: Query, actor: WebhookActor, id: string, patch: WebhookPatch): Promise<void> {
  const before = await lockWebhook(query, actor.accountId, id)
  const after = {
    label: patch.label ?? before.label,
    url: patch.url ?? before.url,
    platform: patch.platform ?? before.platform,
    is_active: patch.is_active ?? before.is_active,
  }
  // The URL and the platform may come from different requests, so their fit is checked on the whole.
  if (after.platform === 'telegram' && !hasChat(after.url)) {
    const { message, params, path } = chatMissing
    const violation = { type: params.type, loc: ['body', ...path], msg: message, input: patch.url ?? null, ctx: {} }
    throw new HttpError('VALIDATION_ERROR', [violation])
  }
  await query(
    `UPDATE webhooks SET label = $2, url = $3, platform = $4, is_active = $5, updated_at = greatest(updated_at, $6)
      WHERE id = $1`,
    [id, after.label, after.url, after.platform, after.is_active, new Date(actor.now)],
  )
  const detail = { webhook_id: id, has_new_url: after.url !== before.url, is_active: after.is_active }
  await recordAction(query, actor, { kind: 'webhook.changed', at: actor.now, detail })
  if (!after.is_active || before.is_active) return
  const waiting = await query(
    `UPDATE webhook_deliveries SET next_attempt_at = now()
      WHERE endpoint_id = $1 AND status = 'pending' AND next_attempt_at IS NULL RETURNING id`,
    [id],
  )
  if (waiting.length > 0) await queueDestination(query, id)
}

/** Gives a destination another secret; the old one signs nothing from the commit on. */
export async function rotateWebhookSecret(
  query: Query,
  actor: WebhookActor,
  id: string,
  box: SealedBox,
): Promise<{ id: string; secret: string }> {
  await lockWebhook(query, actor.accountId, id)
  const secret = newSecret()
  await query(
    'UPDATE webhooks SET sealed_secret = $2, secret_last4 = $3, updated_at = greatest(updated_at, $4) WHERE id = $1',
    [id, ...sealed(box, id, secret), new Date(actor.now)],
  )
  await recordAction(query, actor, { kind: 'webhook.secret_rotated', at: actor.now, detail: { webhook_id: id } })
  return { id, secret }
}

/** Removes a destination: what is pending to it is cancelled. */
export async function removeWebhook(query: Query, actor: WebhookActor, id: string): Promise<void> {
  await lockWebhook(query, actor.accountId, id)
  await query('DELETE FROM webhooks WHERE id = $1', [id])
  await recordAction(query, actor, { kind: 'webhook.removed', at: actor.now, detail: { webhook_id: id } })
  await cancelDeliveries(query, id)
  await query('DELETE FROM webhook_health WHERE endpoint_id = $1', [id])
}

/** Deletes all destinations of an account and all its deliveries; their jobs find nothing. Destinations first, as everywhere. */
export async function removeWebhooks(query: Query, accountId: string): Promise<void> {
  const gone = await query<{ id: string }>('DELETE FROM webhooks WHERE account_id = $1 RETURNING id', [accountId])
  await removeDeliveries(query, { accountId, endpointIds: gone.map(({ id }) => id) })
}

/** The destination as it is until the commit: no attempt, pause or removal comes between. */
async function lockWebhook(query: Query, accountId: string, id: string) {
  const [webhook] = await query<DeliveryTarget & { is_active: boolean }>(
    'SELECT id, account_id, label, url, platform, is_active FROM webhooks WHERE account_id = $1 AND id = $2 FOR UPDATE',
    [accountId, id],
  )
  if (!webhook) throw new HttpError('WEBHOOK_NOT_FOUND', 'This account has no webhook with this id.')
  return webhook
}

async function lockActive(query: Query, accountId: string, id: string): Promise<DeliveryTarget> {
  const webhook = await lockWebhook(query, accountId, id)
  if (webhook.is_active) return webhook
  throw new HttpError('WEBHOOK_PAUSED', 'The webhook is paused; set is_active to true first.')
}

const sealed = (box: SealedBox, id: string, secret: string): [sealed: string, last4: string] => [
  box.seal(secret, `webhooks/${id}`),
  secret.slice(-4),
]

const NO_ALERT = '00000000-0000-0000-0000-000000000000'

/** Sends a made-up event to a destination; returns the delivery's id. */
export async function requestTest(
  query: Query,
  accountId: string,
  endpointId: string,
  {
    subject,
    now,
  }: { subject: Pick<AlertTriggeredBody['data'], 'item_id' | 'market_hash_name' | 'phase'>; now: number },
): Promise<string> {
  const target = await lockActive(query, accountId, endpointId)
  const example = exampleOf(alertTriggeredBody) as AlertTriggeredBody
  const data = { ...example.data, alert_id: NO_ALERT, ...subject }
  const event = { ...example, id: newId(now), created_at: new Date(now).toISOString(), data }
  const [deliveryId = ''] = await addDeliveries(query, event, [target], { isTest: true })
  await queueDestination(query, endpointId)
  return deliveryId
}

/** Repeats a delivery; one that waits for its next attempt is attempted at once. */
export async function requestRedelivery(query: Query, accountId: string, deliveryId: string): Promise<void> {
  const [delivery] = await query<{ endpoint_id: string; event: string }>(
    'SELECT endpoint_id, event FROM webhook_deliveries WHERE account_id = $1 AND id = $2',
    [accountId, deliveryId],
  )
  if (!delivery) throw deliveryNotFound()
  // Its destination is locked before it, here as everywhere: the other order could end in a deadlock.
  const { label, url, platform } = await lockActive(query, accountId, delivery.endpoint_id)
  await query(
    `UPDATE webhook_deliveries SET status = 'pending', failures = 0, next_attempt_at = now(), completed_at = NULL,
        endpoint_label = $2, endpoint_url = $3, platform = $4, body = $5 WHERE id = $1`,
    [deliveryId, label, url, platform, bodyFor(platform, url, JSON.parse(delivery.event) as AlertTriggeredBody)],
  )
  await queueDestination(query, delivery.endpoint_id)
}
