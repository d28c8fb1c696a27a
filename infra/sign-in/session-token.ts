/**
 * The tokens of sessions: JWTs that a rotating key signs and anybody may check against the published keys.
 *
 * The only file that loads jose. Reads and stores nothing. Invariant: ES256 alone, one issuer, one audience, and a
 * time of expiry; what does not fit in any of these is no token. A token holds account and session, and nothing
 * that could change during its life.
 */
import { exportJWK, generateKeyPair, importJWK, type JWK, type JWTVerifyGetKey, jwtVerify, SignJWT } from 'jose'

/** A pair of keys; the private part is a secret. */
export interface SigningKey {
  id: string
  publicKey: JWK
  privateKey: JWK
}

interface SessionClaims {
  accountId: string
  sessionId: string
}

interface TokenScope {
  /** Public root of the API. */
  issuer: string
  /** Milliseconds since the epoch. */
  now: number
}

const ALGORITHM = 'ES256'
const AUDIENCE = 'marketlog-account'

export const TOKEN_LIFE_SECONDS = 15 * 60

export async function newSigningKey(): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(ALGORITHM, { extractable: true })
  const id = crypto.randomUUID()
  return {
    id,
    publicKey: { ...(await exportJWK(publicKey)), kid: id, alg: ALGORITHM, use: 'sig' },
    privateKey: await exportJWK(privateKey),
  }
}

export async function signSession(
  key: SigningKey,
  claims: SessionClaims,
  { issuer, now }: TokenScope,
): Promise<string> {
  const issuedAt = Math.floor(now / 1000)
  return new SignJWT({ sid: claims.sessionId })
    .setProtectedHeader({ alg: ALGORITHM, kid: key.id, typ: 'JWT' })
    .setSubject(claims.accountId)
    .setIssuer(issuer)
    .setAudience(AUDIENCE)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + TOKEN_LIFE_SECONDS)
    .sign(await importJWK(key.privateKey, ALGORITHM))
}

/** The claims of a token and its expiry; undefined when it is none of ours, or is expired. `publicKeyOf` rejects when it cannot be known. */
export async function readSession(
  token: string,
  { issuer, now }: TokenScope,
  publicKeyOf: (id: string) => Promise<JWK | undefined>,
): Promise<(SessionClaims & { expiresAt: number }) | undefined> {
  let lost: unknown
  const keyOf: JWTVerifyGetKey = async ({ kid = '' }) => {
    const key = await publicKeyOf(kid).catch(error => {
      lost = error
      throw error
    })
    if (!key) throw new Error('no such key')
    return importJWK(key, ALGORITHM)
  }
  try {
    const { payload } = await jwtVerify(token, keyOf, {
      algorithms: [ALGORITHM],
      issuer,
      audience: AUDIENCE,
      currentDate: new Date(now),
      requiredClaims: ['exp', 'sub', 'sid'],
    })
    const expiresAt = Number(payload.exp) * 1000
    return { accountId: String(payload.sub), sessionId: String(payload.sid), expiresAt }
  } catch {
    if (lost) throw lost
    return undefined
  }
}
