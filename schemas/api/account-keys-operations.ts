/**
 * The operations of API keys.
 *
 * Rules: DECISIONS.md, "Keys and sessions". The bounds of a child key's limits are those of the tier that
 * the scope names.
 */
import {
  type ChildKeyScope,
  childKeyBody,
  childKeyParams,
  childKeyPatch,
  childKeyReply,
  childKeysQuery,
  childKeysReply,
  issuedChildKeyReply,
  keyReply,
  reissuedKeyReply,
  revokedKeyReply,
} from './account-keys.ts'
import { ALL, get, json, type Operation, patch, post, QUANT, remove } from './operation.ts'

const GROUP = 'Account keys'
const CHILD = { tiers: QUANT, access: 'management' } as const

/** All operations of keys. */
export function accountKeyOperations(scope: ChildKeyScope): Operation[] {
  return [...rootKeyOperations(), ...childKeysOperations(scope), ...childKeyOperations(scope)]
}

function rootKeyOperations(): Operation[] {
  return [
    {
      ...get('readKey', '/account/key', GROUP),
      ...{ tiers: ALL, access: 'account' },
      summary: 'Metadata of the key that asks',
      description: 'A session shows the active root key of its account, a child key itself.',
      reply: json('KeyReply', keyReply, 'The key, without its text.'),
      errors: [],
    },
    {
      ...post('reissueKey', '/account/key/reissue', GROUP),
      ...{ tiers: ALL, access: 'management' },
      summary: 'Replace the root key and revoke all child keys',
      description:
        'Cannot be undone. Needs a verified e-mail address. The first key of an account is issued like this.',
      reply: json('ReissuedKeyReply', reissuedKeyReply, 'The new key; its text is shown this once.'),
      errors: ['EMAIL_NOT_VERIFIED'],
    },
  ]
}

function childKeysOperations(scope: ChildKeyScope): Operation[] {
  return [
    {
      ...{ ...get('listChildKeys', '/account/sub-keys', GROUP), ...CHILD },
      summary: 'Active child keys',
      description: 'Oldest first. `limit` is moved into 1 to 100.',
      query: childKeysQuery,
      reply: json('ChildKeysReply', childKeysReply, 'A page of child keys and their counted requests of the month.'),
      errors: [],
    },
    {
      ...{ ...post('createChildKey', '/account/sub-keys', GROUP), ...CHILD },
      summary: 'Create a child key',
      description:
        'Up to 25 per root key. Limits may only be lower than the tier allows; left out, they are the tier’s.',
      body: childKeyBody(scope),
      reply: json('IssuedChildKeyReply', issuedChildKeyReply, 'The new key; its text is shown this once.', 201),
      errors: ['EMAIL_NOT_VERIFIED', 'CHILD_KEY_LIMIT_REACHED'],
    },
  ]
}

function childKeyOperations(scope: ChildKeyScope): Operation[] {
  return [
    {
      ...{ ...get('readChildKey', '/account/sub-keys/:id', GROUP), ...CHILD },
      summary: 'One active child key',
      description: 'Revoked and expired keys are not found.',
      params: childKeyParams,
      reply: json('ChildKeyReply', childKeyReply, 'The key and its counted requests of the month.'),
      errors: ['KEY_NOT_FOUND'],
    },
    {
      ...{ ...patch('changeChildKey', '/account/sub-keys/:id', GROUP), ...CHILD },
      summary: 'Change name or limits of a child key',
      description: 'null takes a limit back; what is left out stays.',
      params: childKeyParams,
      body: childKeyPatch(scope),
      reply: json('ChildKeyReply', childKeyReply, 'The key as it is now.'),
      errors: ['KEY_NOT_FOUND'],
    },
    {
      ...{ ...remove('revokeChildKey', '/account/sub-keys/:id', GROUP), ...CHILD },
      summary: 'Revoke a child key',
      description: 'It is refused everywhere within a second, on open feeds as well.',
      params: childKeyParams,
      reply: json('RevokedKeyReply', revokedKeyReply, 'When it was revoked.'),
      errors: ['KEY_NOT_FOUND'],
    },
    {
      ...{ ...post('reissueChildKey', '/account/sub-keys/:id/reissue', GROUP), ...CHILD },
      summary: 'Replace a child key',
      description: 'The old key is revoked at once; the new one keeps name, limits and expiry.',
      params: childKeyParams,
      reply: json('IssuedChildKeyReply', issuedChildKeyReply, 'The new key; its text is shown this once.'),
      errors: ['EMAIL_NOT_VERIFIED', 'KEY_NOT_FOUND'],
    },
  ]
}
