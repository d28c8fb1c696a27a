/**
 * Signs people in through any OpenID Connect provider, known by its discovery URL.
 *
 * The only file that loads openid-client. Connects to the one provider of the environment; reads its metadata when
 * first needed and again after a failure. Invariant: the authorization code flow with PKCE, state and nonce, whose
 * checks the caller keeps; every request has a limit. Errors are reported by kind and code: the library's own carry
 * codes and tokens, so they are neither logged nor passed on.
 */
import {
  AuthorizationResponseError,
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  discovery,
  fetchUserInfo,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from 'openid-client'
import { cached } from '../runtime/async/coalesce.ts'

/** Who signed in, in the provider's words. */
export interface Identity {
  issuer: string
  subject: string
  email: string | undefined
  /** True only when the provider says so of this address. */
  isEmailVerified: boolean
}

/** Compared when a sign-in returns; `nonce` and `codeVerifier` are secrets. */
export interface SignInChecks {
  nonce: string
  codeVerifier: string
}

type SignInOutcome =
  | { kind: 'identity'; identity: Identity }
  /** The person or the provider declined, or the answer is not to be trusted. */
  | { kind: 'refused'; reason: string }
  /** The provider cannot be asked at the moment. */
  | { kind: 'unreachable'; reason: string }

interface IdentityProviderSettings {
  /** URL of the issuer or of its discovery document. */
  discoveryUrl: string
  clientId: string
  /** Undefined for a public client. */
  clientSecret: string | undefined
  /** The provider sends browsers back to it; registered there. */
  redirectUri: string
}

const LIMIT_SECONDS = 5
const SCOPE = 'openid email'

/** Opens a provider without asking it anything yet. */
export function openIdentityProvider(settings: IdentityProviderSettings) {
  const { get: configuration } = cached(() => discover(settings), Number.POSITIVE_INFINITY)
  return {
    /** The URL for the browser; undefined when the provider cannot be asked. */
    async begin(): Promise<{ url: string; state: string; checks: SignInChecks } | undefined> {
      const config = await configuration().catch(() => undefined)
      if (!config) return undefined
      const [state, nonce, codeVerifier] = [randomState(), randomNonce(), randomPKCECodeVerifier()]
      const url = buildAuthorizationUrl(config, {
        redirect_uri: settings.redirectUri,
        scope: SCOPE,
        response_type: 'code',
        state,
        nonce,
        code_challenge: await calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
      })
      return { url: url.href, state, checks: { nonce, codeVerifier } }
    },
    /** `query` is that with which the browser came back. */
    async finish(query: string, state: string, checks: SignInChecks): Promise<SignInOutcome> {
      try {
        const config = await configuration()
        const returned = new URL(`${settings.redirectUri}?${query}`)
        return { kind: 'identity', identity: await identityOf(config, returned, state, checks) }
      } catch (error) {
        return outcomeOf(error)
      }
    },
  }
}

function discover({ discoveryUrl, clientId, clientSecret }: IdentityProviderSettings): Promise<Configuration> {
  const url = new URL(discoveryUrl)
  // The configuration admits http on loopback alone.
  const execute = url.protocol === 'http:' ? [allowInsecureRequests] : []
  return discovery(url, clientId, clientSecret, undefined, { execute, timeout: LIMIT_SECONDS })
}

async function identityOf(
  config: Configuration,
  returned: URL,
  state: string,
  { nonce, codeVerifier }: SignInChecks,
): Promise<Identity> {
  const tokens = await authorizationCodeGrant(config, returned, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: codeVerifier,
    idTokenExpected: true,
  })
  const claims = tokens.claims()
  if (!claims) throw new Error('the provider sent no id token')
  const { iss: issuer, sub: subject } = claims
  const isComplete = typeof claims.email === 'string' || !config.serverMetadata().userinfo_endpoint
  const person = isComplete ? claims : await fetchUserInfo(config, tokens.access_token, subject)
  return { issuer, subject, ...addressOf(person) }
}

const ADDRESS_MAX = 254

function addressOf(person: object) {
  const { email, email_verified: verified } = person as { email?: unknown; email_verified?: unknown }
  if (typeof email !== 'string' || !/^[^@\s\0]+@[^@\s\0]+$/.test(email) || email.length > ADDRESS_MAX) {
    return { email: undefined, isEmailVerified: false }
  }
  return { email, isEmailVerified: verified === true }
}

/** Codes of the library for what time may mend. */
const PASSING = new Set(['OAUTH_TIMEOUT', 'OAUTH_ABORT'])

function outcomeOf(error: unknown): SignInOutcome {
  if (error instanceof AuthorizationResponseError) return { kind: 'refused', reason: error.error }
  const { code = 'unknown', cause } = error as { code?: string; cause?: unknown }
  // An answer that is none of the protocol's comes along as the cause.
  const isDown = cause instanceof Response && cause.status >= 500
  const isNetwork = error instanceof TypeError || PASSING.has(code) || isDown
  return { kind: isNetwork ? 'unreachable' : 'refused', reason: isNetwork ? 'the provider does not answer' : code }
}
