/**
 * Opens what sign-in, sessions, verification mails and platform links work with, as far as it is configured.
 *
 * Opens no connection: providers are called at sign-in. Invariant: a missing setting disables what needs it and nothing
 * else.
 */
import type { Database } from '#infra/postgres/pool.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { openIdentityProvider } from '#infra/sign-in/identity-provider.ts'
import { openPlatformProvider } from '#infra/sign-in/platform-provider.ts'
import { openSessions } from '#services/accounts/sessions.ts'
import { openSigningKeys } from '#services/accounts/signing-keys.ts'
import type { ApiParts } from './parts.ts'

/** Opens the parts. */
export function openSignInParts(
  config: Pick<PlatformConfig, 'baseUrl' | 'secretKey' | 'signIn' | 'platformSignInUrl' | 'smtpUrl'>,
  database: Database,
  now: () => number,
): Pick<ApiParts, 'signIn' | 'platformSignIn' | 'mail'> {
  const { baseUrl, secretKey, signIn, platformSignInUrl, smtpUrl } = config
  const box = secretKey === undefined ? undefined : openSealedBox(secretKey)
  const mail = box && smtpUrl !== undefined ? { box, baseUrl } : undefined
  const platformSignIn =
    platformSignInUrl === undefined
      ? undefined
      : {
          database,
          platform: openPlatformProvider({
            endpoint: platformSignInUrl,
            returnTo: `${baseUrl}/v1/account/platform/callback`,
            realm: baseUrl,
          }),
        }
  if (!box || !signIn) return { mail, platformSignIn, signIn: undefined }
  const keys = openSigningKeys(database, box)
  return {
    ...{ mail, platformSignIn },
    signIn: {
      ...{ database, box, mail },
      provider: openIdentityProvider({ ...signIn, redirectUri: `${baseUrl}/v1/account/callback` }),
      sessions: openSessions({ database, keys, issuer: baseUrl, now }),
    },
  }
}
