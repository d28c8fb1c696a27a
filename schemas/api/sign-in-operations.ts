/**
 * The operations of sign-in, sessions, addresses and the linked platform account.
 *
 * They are beside the specification's table; their 404 names what they need to be configured with.
 */
import { ALL, get, json, type Operation, post, remove } from './operation.ts'
import {
  accountReply,
  callbackQuery,
  emailBody,
  keySetReply,
  okReply,
  platformBegunReply,
  platformLinkedReply,
  refreshBody,
  sessionBody,
  sessionReply,
  signedInReply,
  verifiedReply,
  verifyQuery,
} from './sign-in.ts'

const GROUP = 'Sign-in'
const OPEN = { tiers: undefined } as const
const UNSET = 'SIGN_IN_NOT_CONFIGURED'

/** All operations of sign-in. */
export function signInOperations(): Operation[] {
  return [...sessionOperations(), ...accountOperations()]
}

function sessionOperations(): Operation[] {
  return [
    {
      ...{ ...get('signIn', '/account/login', GROUP), ...OPEN },
      summary: 'Begin a sign-in',
      description: 'Opened by a browser. It gets a cookie that every later step of this sign-in needs.',
      reply: { status: 302, description: 'To the identity provider.', headers: { Location: 'The provider.' } },
      errors: [UNSET, 'UPSTREAM_ERROR'],
    },
    {
      ...{ ...get('finishSignIn', '/account/callback', GROUP), ...OPEN },
      summary: 'Return from the identity provider',
      description: 'Works once, within ten minutes, in the browser that began.',
      query: callbackQuery,
      reply: json('SignedInReply', signedInReply, 'A code for `POST /v1/account/session`, good for two minutes.'),
      errors: [UNSET, 'SIGN_IN_REFUSED', 'AUTH_ACCOUNT_DISABLED', 'UPSTREAM_ERROR'],
    },
    {
      ...{ ...post('openSession', '/account/session', GROUP), ...OPEN },
      summary: 'Exchange a sign-in for a session',
      description:
        'Works once, in the browser that began. The access token is a JWT that stands for the root key on account routes.',
      body: sessionBody,
      reply: json(
        'SessionReply',
        sessionReply,
        'Tokens: the access token for 15 minutes, the refresh token for one use.',
      ),
      errors: [UNSET, 'SIGN_IN_REFUSED'],
    },
    {
      ...{ ...post('refreshSession', '/account/session/refresh', GROUP), ...OPEN },
      summary: 'Renew the tokens of a session',
      description: 'Each refresh token works once. The second use of one ends the session: somebody else holds a copy.',
      body: refreshBody,
      reply: json('SessionReply', sessionReply, 'New tokens; the old refresh token is used up.'),
      errors: [UNSET, 'AUTH_INVALID_SESSION'],
    },
    {
      ...{ ...remove('closeSession', '/account/session', GROUP), tiers: ALL, access: 'management' },
      summary: 'Sign out',
      description: 'Ends the session whose access token asks, at once. A key has no session, which is a 404.',
      reply: json('OkReply', okReply, 'The session is over.'),
      errors: ['NOT_FOUND'],
    },
    {
      ...{ ...get('listSessionKeys', '/.well-known/jwks.json', GROUP), ...OPEN },
      summary: 'Public keys of session tokens',
      description: 'A JSON Web Key Set. Keys change daily; ask again for a `kid` that is not known.',
      reply: json('KeySetReply', keySetReply, 'The keys with which tokens that are still good were signed.'),
      errors: [UNSET],
    },
  ]
}

function accountOperations(): Operation[] {
  return [
    {
      ...{ ...get('readAccount', '/account', GROUP), tiers: ALL, access: 'account' },
      summary: 'The account of the caller',
      description: 'Tier, e-mail address and linked platform account.',
      reply: json('AccountReply', accountReply, 'The account.'),
      errors: [],
    },
    {
      ...{ ...post('sendVerification', '/account/email', GROUP), tiers: ALL, access: 'management' },
      summary: 'Confirm an e-mail address',
      description: 'Sends a one-time link, good for a day. A verified address stays until the new one is confirmed.',
      body: emailBody,
      reply: json('OkReply', okReply, 'The mail is on its way.'),
      errors: [],
    },
    {
      ...{ ...get('verifyEmail', '/account/email/verify', GROUP), ...OPEN },
      summary: 'Open the link of a verification mail',
      description: 'Works once.',
      query: verifyQuery,
      reply: json('VerifiedReply', verifiedReply, 'The address is the account’s.'),
      errors: ['NOT_FOUND'],
    },
    {
      ...{ ...post('linkPlatform', '/account/platform', GROUP), tiers: ALL, access: 'management' },
      summary: 'Begin to link a platform account',
      description: 'Opened by a browser, which gets a cookie that the return needs. A link that stands is replaced.',
      reply: json('PlatformBegunReply', platformBegunReply, 'Where the browser signs in to the platform.'),
      errors: [UNSET],
    },
    {
      ...{ ...get('finishPlatformLink', '/account/platform/callback', GROUP), ...OPEN },
      summary: 'Return from the platform',
      description: 'Works once, within ten minutes, in the browser that began.',
      query: callbackQuery,
      reply: json('PlatformLinkedReply', platformLinkedReply, 'The platform account is linked.'),
      errors: [UNSET, 'SIGN_IN_REFUSED', 'UPSTREAM_ERROR'],
    },
    {
      ...{ ...remove('unlinkPlatform', '/account/platform', GROUP), tiers: ALL, access: 'management' },
      summary: 'Unlink the platform account',
      description: 'What was imported stays.',
      reply: json('OkReply', okReply, 'No platform account is linked.'),
      errors: ['NOT_FOUND'],
    },
  ]
}
