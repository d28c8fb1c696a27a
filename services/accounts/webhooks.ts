/**
 * Webhook destinations: created, changed, removed, given another secret by their account.
 *
 * Sole writer of webhooks. States: active <-> paused, any -> removed. Invariant: the account's row is locked first, so it never
 * has more destinations than allowed; the secret's text exists in the returned value and, sealed, in the row;
 * another account's destination is not found. What a change means for deliveries is services/delivery's, in the
 * same transaction.
 */
import { randomBytes } from 'node:crypto'
import type { Query } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { Refusal } from '#schemas/api/refusal.ts'
import {
  hasChat,
  WEBHOOKS_MAX,
  type WebhookBody,
  type WebhookPatch,
  type WebhookPlatform,
} from '#schemas/api/webhooks.ts'

/** A new secret, the only copy of its text, and the destination that signs with it. */
export interface IssuedSecret {
  id: string
  secret: string
}

/** Whether a change of a destination resumed its deliveries. */
export interface ChangedWebhook {
  isResumed: boolean
}

/** Who changes what and when. */
export interface WebhookActor {
  accountId: string
  /** Milliseconds since the epoch. */
  now: number
}

const SECRET_BYTES = 32

const newId = openUuidSource()
const newSecret = (): string => `whsec_${randomBytes(SECRET_BYTES).toString('base64url')}`

/** The account has no such destination; one of another account is not revealed. */
export const webhookNotFound = (): Refusal =>
  new Refusal('WEBHOOK_NOT_FOUND', 'This account has no webhook with this id.')

/** Creates a destination; refuses the one after the last that is allowed. */
export async function createWebhook(
  query: Query,
  { accountId, now }: WebhookActor,
  body: WebhookBody,
  box: SealedBox,
): Promise<IssuedSecret> {
  await query('SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE', [accountId])
  const [count] = await query<{ n: number }>('SELECT count(*)::int AS n FROM webhooks WHERE account_id = $1', [
    accountId,
  ])
  if ((count?.n ?? 0) >= WEBHOOKS_MAX) {
    throw new Refusal('WEBHOOK_LIMIT_REACHED', `An account has ${WEBHOOKS_MAX} webhooks at most; delete one first.`)
  }
  const [id, secret] = [newId(now), newSecret()]
  await query(
    `INSERT INTO webhooks (id, account_id, label, url, platform, sealed_secret, secret_last4, is_active, created_at, updated_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)`,
    [id, accountId, body.label, body.url, body.platform, ...sealed(box, id, secret), body.is_active, new Date(now)],
  )
  return { id, secret }
}

/** Changes a destination; what is left out stays. */
export async function changeWebhook(
  query: Query,
  actor: WebhookActor,
  id: string,
  patch: WebhookPatch,
): Promise<ChangedWebhook | 'chat missing'> {
  const before = await lockWebhook(query, actor, id)
  const after = {
    label: patch.label ?? before.label,
    url: patch.url ?? before.url,
    platform: patch.platform ?? before.platform,
    is_active: patch.is_active ?? before.is_active,
  }
  if (after.platform === 'telegram' && !hasChat(after.url)) return 'chat missing'
  await query(
    `UPDATE webhooks SET label = $2, url = $3, platform = $4, is_active = $5, updated_at = greatest(updated_at, $6)
      WHERE id = $1`,
    [id, after.label, after.url, after.platform, after.is_active, new Date(actor.now)],
  )
  return { isResumed: after.is_active && !before.is_active }
}

/** Gives a destination another secret; the old one signs nothing from the commit on. */
export async function rotateWebhookSecret(
  query: Query,
  actor: WebhookActor,
  id: string,
  box: SealedBox,
): Promise<IssuedSecret> {
  await lockWebhook(query, actor, id)
  const secret = newSecret()
  await query(
    'UPDATE webhooks SET sealed_secret = $2, secret_last4 = $3, updated_at = greatest(updated_at, $4) WHERE id = $1',
    [id, ...sealed(box, id, secret), new Date(actor.now)],
  )
  return { id, secret }
}

/** Removes a destination. */
export async function removeWebhook(query: Query, actor: WebhookActor, id: string): Promise<void> {
  await lockWebhook(query, actor, id)
  await query('DELETE FROM webhooks WHERE id = $1', [id])
}

interface WebhookRow {
  label: string
  url: string
  platform: WebhookPlatform
  is_active: boolean
}

async function lockWebhook(query: Query, { accountId }: WebhookActor, id: string): Promise<WebhookRow> {
  const [row] = await query<WebhookRow>(
    'SELECT label, url, platform, is_active FROM webhooks WHERE account_id = $1 AND id = $2 FOR UPDATE',
    [accountId, id],
  )
  if (!row) throw webhookNotFound()
  return row
}

const sealed = (box: SealedBox, id: string, secret: string): [sealed: string, last4: string] => [
  box.seal(secret, `webhooks/${id}`),
  secret.slice(-4),
]
