/**
 * The routes of API keys: the caller's own key, reissue, and the child keys of a root.
 *
 * Rules: DECISIONS.md, "Keys and sessions". Writes through services/accounts. Invariant: the text of a key is in the
 * one answer that issues it, and in nothing that is logged.
 */
import type { Response, Router } from 'express'
import { requestLimits } from '#infra/config/tiers.ts'
import {
  childKeyBody,
  childKeyParams,
  childKeyPatch,
  childKeyScope,
  childKeysQuery,
  type KeyInfo,
} from '#schemas/api/account-keys.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import {
  changeChildKey,
  createChildKey,
  type IssuedKey,
  keyPrefix,
  reissueChildKey,
  reissueRootKey,
  revokeChildKey,
} from '#services/accounts/keys/commands.ts'
import { listChildKeys, readChildKey, readKey, type StoredKey } from '#services/accounts/keys/reader.ts'
import { parseBody, readBody } from '../body.ts'
import { orUnavailable } from '../errors.ts'
import { credentialOf, type Guard } from '../guard.ts'
import { type ApiParts, perTier } from '../parts.ts'
import { send } from '../reply.ts'
import { parse, parseParams } from '../request.ts'

const SHOWN_ONCE = 'Keep this key now: it is shown this once.'

/** Adds the routes. */
export function addAccountKeyRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  const { database, now } = parts
  const infoOf = openKeyInfo(parts)
  const everybody = ['free', 'starter', 'pro', 'quant'] as const

  router.get('/account/key', guard.account(...everybody), async (_request, response) => {
    const key = await readKey(database, credentialOf(response).keyId)
    answer(response, 200, { key: infoOf(response, key) })
  })
  router.post('/account/key/reissue', guard.management(...everybody), async (_request, response) => {
    const actor = credentialOf(response)
    const { text, key } = await reissueRootKey(database, actor, now())
    parts.keys.forget(actor.accountId)
    answer(response, 200, {
      ...{ key: text, key_prefix: keyPrefix('root'), id: key.id, created_at: formatInstant(key.createdAt) },
      message: `${SHOWN_ONCE} The former root key and its child keys are revoked.`,
    })
  })
  addChildKeyRoutes(router, guard, parts, infoOf)
}

function addChildKeyRoutes(router: Router, guard: Guard, parts: ApiParts, infoOf: InfoOf): void {
  const { database, now, tiers } = parts
  const quant = guard.management('quant')
  const bodies = perTier(parts, limits => childKeyBody(childKeyScope(limits)))
  const patches = perTier(parts, limits => childKeyPatch(childKeyScope(limits)))
  const withUse = async (response: Response, keys: StoredKey[]) => {
    const counts = await orUnavailable(
      parts.meter.monthOf(keys.map(({ id }) => id)),
      'SERVICE_UNAVAILABLE',
      'Requests cannot be counted at the moment; try again with a growing delay.',
    )
    return keys.map((key, i) => ({ key: infoOf(response, key), requests_this_month: counts[i] ?? 0 }))
  }
  const issued = (response: Response, { text, key }: IssuedKey) => ({
    ...{ key: text, key_info: infoOf(response, key), message: SHOWN_ONCE },
  })

  router.get('/account/sub-keys', quant, async (request, response) => {
    const { limit, offset } = parse(childKeysQuery, request)
    const page = { limit, offset, now: now() }
    const { keys, total } = await listChildKeys(database, credentialOf(response).accountId, page)
    const pagination = { limit, offset, total, has_next: offset + keys.length < total, has_prev: offset > 0 }
    answer(response, 200, { keys: await withUse(response, keys), pagination })
  })
  router.post('/account/sub-keys', quant, readBody, async (request, response) => {
    const actor = credentialOf(response)
    const body = parseBody(bodies[actor.tier], request)
    const limits = { most: tiers[actor.tier].child_keys, now: now() }
    const child = await createChildKey(database, actor, { name: body.name, ...overridesOf(body) }, limits)
    answer(response, 201, issued(response, child))
  })
  router.get('/account/sub-keys/:id', quant, async (request, response) => {
    const { id } = parseParams(childKeyParams, request)
    const key = await readChildKey(database, credentialOf(response).accountId, id, now())
    answer(response, 200, (await withUse(response, [key]))[0])
  })
  router.patch('/account/sub-keys/:id', quant, readBody, async (request, response) => {
    const actor = credentialOf(response)
    const { id } = parseParams(childKeyParams, request)
    const body = parseBody(patches[actor.tier], request)
    const changes = { name: body.name, ...overridesOf(body) }
    const key = await changeChildKey(database, actor, id, { changes, now: now() })
    parts.keys.forget(actor.accountId)
    answer(response, 200, (await withUse(response, [key]))[0])
  })
  router.delete('/account/sub-keys/:id', quant, async (request, response) => {
    const { id } = parseParams(childKeyParams, request)
    const [actor, revokedAt] = [credentialOf(response), now()]
    await revokeChildKey(database, actor, id, revokedAt)
    parts.keys.forget(actor.accountId)
    answer(response, 200, { ok: true, key_id: id, revoked_at: formatInstant(revokedAt) })
  })
  router.post('/account/sub-keys/:id/reissue', quant, async (request, response) => {
    const { id } = parseParams(childKeyParams, request)
    const actor = credentialOf(response)
    const child = await reissueChildKey(database, actor, id, now())
    parts.keys.forget(actor.accountId)
    answer(response, 200, issued(response, child))
  })
}

type InfoOf = (response: Response, key: StoredKey) => KeyInfo

/** The public members of a key whose account's tier is the caller's. */
function openKeyInfo({ tiers, now }: ApiParts): InfoOf {
  return (response, key) => {
    const { perMonth, perMinute } = requestLimits(tiers[credentialOf(response).tier], key)
    const time = (at: number | null) => (at === null ? null : formatInstant(at))
    return {
      id: key.id,
      key_prefix: `sk_live_${key.kind}`,
      name: key.name,
      root_key_id: key.rootKeyId,
      is_root_key: key.kind === 'root',
      is_active: key.expiresAt === null || key.expiresAt > now(),
      created_at: formatInstant(key.createdAt),
      last_used_at: time(key.lastUsedAt),
      expires_at: time(key.expiresAt),
      quota_requests_per_month_override: key.quotaPerMonthOverride,
      rate_requests_per_minute_override: key.ratePerMinuteOverride,
      effective_quota_requests_per_month: perMonth,
      effective_rate_requests_per_minute: perMinute,
    }
  }
}

function overridesOf(body: {
  quota_requests_per_month_override?: number | null
  rate_requests_per_minute_override?: number | null
}) {
  return {
    quotaPerMonthOverride: body.quota_requests_per_month_override,
    ratePerMinuteOverride: body.rate_requests_per_minute_override,
  }
}

const answer = (response: Response, status: number, body: unknown): void => send(response, status, JSON.stringify(body))
