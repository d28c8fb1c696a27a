/** Rules: DECISIONS.md, "Keys and sessions". A key's text is in the one answer that issues it, and in no log. */
import type { Request } from 'express'
import { requestLimits } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import {
  childKeyBody,
  childKeyParams,
  childKeyPatch,
  childKeyReply,
  childKeysQuery,
  childKeysReply,
  issuedChildKeyReply,
  type KeyInfo,
  keyReply,
  reissuedKeyReply,
  revokedKeyReply,
} from '#schemas/api/account-keys.ts'
import { ALL, json, QUANT } from '#schemas/api/operation.ts'
import { SCOPES, type Scope } from '#schemas/api/scopes.ts'
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
import { type ApiContext, originOf } from '../context.ts'
import { paginationOf } from '../queries/listing.ts'

const GROUP = 'Account keys'
const CHILD = { group: GROUP, tiers: QUANT, access: 'management' } as const
const SHOWN_ONCE = 'Keep this key now: it is shown this once.'

export const accountKeyRoutes = (api: ApiContext): Route[] => [
  readOwnKey(api),
  reissueKey(api),
  ...childKeysRoutes(api),
  ...childKeyRoutes(api),
]

const readOwnKey = (api: ApiContext): Route =>
  defineRoute({
    id: 'getKey',
    method: 'get',
    path: '/account/key',
    group: GROUP,
    tiers: ALL,
    access: 'account',
    scope: 'any',
    summary: 'Metadata of the key that asks',
    description: 'A session shows the active root key of its account, a child key itself.',
    reply: json('KeyReply', keyReply, 'The key, without its text.'),
    handle: async ({ credential }) => ({
      key: infoOf(api, credential, await readKey(api.database, credential.keyId)),
    }),
  })

const reissueKey = (api: ApiContext): Route => {
  const { database, keys, now } = api
  return defineRoute({
    id: 'reissueKey',
    method: 'post',
    path: '/account/key/reissue',
    group: GROUP,
    tiers: ALL,
    access: 'management',
    summary: 'Replace the root key and revoke all child keys',
    description:
      'Cannot be undone. Limits go on where they were. Needs a verified e-mail address. The first key of an account is issued like this.',
    reply: json('ReissuedKeyReply', reissuedKeyReply, 'The new key; its text is shown this once.'),
    errors: ['EMAIL_NOT_VERIFIED'],
    async handle({ credential, request }) {
      const actor = actorOf(api, { credential, request })
      const { text, key } = await reissueRootKey(database, actor, now())
      keys.forget(credential.accountId)
      return {
        key: text,
        key_prefix: keyPrefix('root'),
        id: key.id,
        created_at: key.created_at,
        message: `${SHOWN_ONCE} The former root key and its child keys are revoked.`,
      }
    },
  })
}

function childKeysRoutes(api: ApiContext): Route[] {
  const { database, tiers, now } = api
  return [
    defineRoute({
      ...CHILD,
      id: 'listChildKeys',
      method: 'get',
      path: '/account/sub-keys',
      summary: 'Active child keys',
      description: 'Oldest first. `limit` is moved into 1 to 100.',
      query: childKeysQuery,
      reply: json('ChildKeysReply', childKeysReply, 'A page of child keys and their counted requests of the month.'),
      async handle({ query: { limit, offset }, credential }) {
        const page = { limit, offset, now: now() }
        const { rows, total } = await listChildKeys(database, credential.accountId, page)
        return { keys: await withUse(api, credential, rows), pagination: paginationOf(page, total) }
      },
    }),
    defineRoute({
      ...CHILD,
      id: 'createChildKey',
      method: 'post',
      path: '/account/sub-keys',
      summary: 'Create a child key',
      description:
        'Up to 25 per root key. Limits may only be lower than the tier allows; left out, they are the tier’s. It goes on with the count of a revoked key.',
      body: childKeyBody(tiers.quant),
      reply: json('IssuedChildKeyReply', issuedChildKeyReply, 'The new key; its text is shown this once.', 201),
      errors: ['EMAIL_NOT_VERIFIED', 'CHILD_KEY_LIMIT_REACHED'],
      async handle({ body, credential, request }) {
        const limits = { most: tiers[credential.tier].child_keys, now: now(), usedOf: api.readUse }
        const actor = actorOf(api, { credential, request })
        return issued(api, credential, await createChildKey(database, actor, inOrder(body), limits))
      },
    }),
  ]
}

function childKeyRoutes(api: ApiContext): Route[] {
  const { database, keys, now } = api
  const one = { ...CHILD, path: '/account/sub-keys/:id', params: childKeyParams }
  return [
    defineRoute({
      ...one,
      id: 'getChildKey',
      method: 'get',
      summary: 'One active child key',
      description: 'Revoked and expired keys are not found.',
      reply: json('ChildKeyReply', childKeyReply, 'The key and its counted requests of the month.'),
      errors: ['KEY_NOT_FOUND'],
      handle: async ({ params: { id }, credential }) =>
        shown(
          api,
          credential,
          await readChildKey(database.rows, { accountId: credential.accountId, keyId: id, now: now() }),
        ),
    }),
    defineRoute({
      ...one,
      id: 'updateChildKey',
      method: 'patch',
      summary: 'Change name, limits or scopes of a child key',
      description: 'null takes a limit or the scopes back; what is left out stays.',
      body: childKeyPatch(api.tiers.quant),
      reply: json('ChildKeyReply', childKeyReply, 'The key as it is now.'),
      errors: ['KEY_NOT_FOUND'],
      async handle({ params: { id }, body, credential, request }) {
        const changes = inOrder(body)
        const key = await changeChildKey(database, actorOf(api, { credential, request }), id, { changes, now: now() })
        keys.forget(credential.accountId)
        return shown(api, credential, key)
      },
    }),
    defineRoute({
      ...one,
      id: 'revokeChildKey',
      method: 'delete',
      summary: 'Revoke a child key',
      description: 'It is refused everywhere within a second, on open feeds as well.',
      reply: json('RevokedKeyReply', revokedKeyReply, 'When it was revoked.'),
      errors: ['KEY_NOT_FOUND'],
      async handle({ params: { id }, credential, request }) {
        const revokedAt = now()
        await revokeChildKey(database, actorOf(api, { credential, request }), id, revokedAt)
        keys.forget(credential.accountId)
        return { ok: true, key_id: id, revoked_at: formatInstant(revokedAt) }
      },
    }),
    defineRoute({
      ...one,
      id: 'reissueChildKey',
      method: 'post',
      path: '/account/sub-keys/:id/reissue',
      summary: 'Replace a child key',
      description:
        'The old key is revoked at once; the new one keeps name, limits, scopes, expiry and what was counted.',
      reply: json('IssuedChildKeyReply', issuedChildKeyReply, 'The new key; its text is shown this once.'),
      errors: ['EMAIL_NOT_VERIFIED', 'KEY_NOT_FOUND'],
      async handle({ params: { id }, credential, request }) {
        const child = await reissueChildKey(database, actorOf(api, { credential, request }), id, now())
        keys.forget(credential.accountId)
        return issued(api, credential, child)
      },
    }),
  ]
}

const actorOf = (api: ApiContext, route: { credential: Credential; request: Request }) => ({
  ...originOf(api, route),
  kind: route.credential.kind,
})

/** Child keys with their counted requests of the month. */
async function withUse(api: ApiContext, credential: Credential, keys: readonly StoredKey[]) {
  const counts = await api.readUse(keys.map(({ lineage_id }) => lineage_id))
  return keys.map((key, i) => ({ key: infoOf(api, credential, key), requests_this_month: counts[i] ?? 0 }))
}

async function shown(api: ApiContext, credential: Credential, key: StoredKey) {
  const [one] = await withUse(api, credential, [key])
  return one as NonNullable<typeof one>
}

const issued = (api: ApiContext, credential: Credential, { text, key }: IssuedKey) => ({
  key: text,
  key_info: infoOf(api, credential, key),
  message: SHOWN_ONCE,
})

/** The public members of a key whose account's tier is the caller's. */
export function infoOf(
  { tiers, now }: ApiContext,
  { tier }: Credential,
  { kind, lineage_id: _, revoked_at, ...key }: StoredKey,
): KeyInfo {
  const { perMonth, perMinute } = requestLimits(tiers[tier], key)
  return {
    ...key,
    key_prefix: `sk_live_${kind}`,
    is_root_key: kind === 'root',
    is_active: revoked_at === null && (key.expires_at === null || Date.parse(key.expires_at) > now()),
    effective_quota_requests_per_month: perMonth,
    effective_rate_requests_per_minute: perMinute,
  }
}

/** With scopes in the order of their list. */
const inOrder = <B extends { scopes?: Scope[] | null | undefined }>(body: B): B => ({
  ...body,
  scopes: body.scopes && SCOPES.filter(scope => body.scopes?.includes(scope)),
})
