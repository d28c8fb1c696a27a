/**
 * The checks of a request before its parameters: key, account, tier, limits.
 *
 * Reads the key directory, counts in the request meter and the address limit. Invariant (DECISIONS.md, "Order
 * of checks"): credential 401, account 403, tier and kind of key 403, rate limit 429, then validation 422.
 * No request passes uncounted: with a key it counts on the key, without one on its address, and when the meter
 * fails it is a 503. Every answer to a valid key carries X-RateLimit-*.
 */
import type { Request, RequestHandler, Response } from 'express'
import { requestLimits, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import { rateHeaders } from '#infra/http/rate-headers.ts'
import type { AddressLimit } from '#infra/redis/address-limit.ts'
import type { Metered, RequestLimits, RequestMeter } from '#infra/redis/request-meter.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { KeyUse } from '#services/accounts/access/commands.ts'
import type { KeyDirectory } from '#services/accounts/access/reader.ts'
import type { Sessions } from '#services/accounts/sessions/commands.ts'
import { ApiError } from './errors.ts'
import { localsOf } from './reply.ts'

/** Makes the handler that accepts only some tiers. */
export type Allow = (...tiers: Tier[]) => RequestHandler

/** The handlers that come before routes. */
export interface Guard {
  /** Any API key; counts against the monthly quota. */
  allow: Allow
  /** Any API key, or a session JWT, which acts as its account's active root key; exempt from the monthly quota. */
  account: Allow
  /** What manages keys: a root key or a session JWT; a child key is a 403. Exempt from the monthly quota. */
  management: Allow
  /** For routes that need no key: counts by address, or in the minute of a valid key. */
  withoutKey: RequestHandler
}

/** What the guard asks. */
export interface GuardParts {
  keys: KeyDirectory
  meter: RequestMeter
  addresses: AddressLimit
  tiers: Record<Tier, TierLimits>
  /** Judges session tokens; undefined where sign-in is not configured. */
  signIn: { sessions: Pick<Sessions, 'judge'> } | undefined
  keyUse: KeyUse
  /** Milliseconds since the epoch. */
  now: () => number
}

/** Counters and live tables share a server; a client of these routes gets the error of the table that it asked for. */
const LOST_INDEX: Record<string, ErrorCode> = {
  '/prices': 'PRICES_INDEX_UNAVAILABLE',
  '/prices/batch': 'PRICES_INDEX_UNAVAILABLE',
  '/bids': 'BIDS_INDEX_UNAVAILABLE',
  '/bids/batch': 'BIDS_INDEX_UNAVAILABLE',
}

/** How a handler of the guard differs from another. */
interface Rule {
  /** What takes sessions is exempt from the monthly quota. */
  takesSessions: boolean
  refusesChildKeys: boolean
}

const SESSION_FORM = /^bearer ([\w-]+\.[\w-]+\.[\w-]+)$/i

/** The session token of an Authorization header, by its form: keys have no dots. */
const sessionToken = (authorization: string | undefined): string | undefined =>
  authorization === undefined ? undefined : SESSION_FORM.exec(authorization)?.[1]

/** Opens the guard. */
export function openGuard(parts: GuardParts): Guard {
  const { keys } = parts
  const judge = async (request: Request): Promise<KeyAnswer> => keys.judge(request.headers.authorization)
  const rule =
    ({ takesSessions, refusesChildKeys }: Rule): Allow =>
    (...tiers) => {
      const [lowest] = tiers
      // One function awaits one promise: each more cost a request about 1 us of its 65.
      return async (request, response, next) => {
        const token = takesSessions ? sessionToken(request.headers.authorization) : undefined
        const sessions = token === undefined ? undefined : parts.signIn?.sessions
        const judged = sessions?.judge(token as string) ?? keys.judge(request.headers.authorization)
        const answer = judged instanceof Promise ? await judged.catch(unreachable) : judged
        if (!answer.accepted) throw await refusalOf(parts, request, answer)
        const credential = admit(parts, response, answer)
        const refusal = tiers.includes(credential.tier)
          ? refusesChildKeys && !credential.isRootKey && forbiddenChildKey()
          : forbiddenTier(`This route is for the tier ${lowest} and above.`)
        if (refusal) {
          await showLimits(parts, response, credential)
          throw refusal
        }
        const limits = requestLimits(parts.tiers[credential.tier], credential)
        const taken = parts.meter.take(credential.keyId, limits, { countsInMonth: !takesSessions })
        const metered = await taken.catch(cause => uncounted(request, cause))
        enforceLimits(response, credential, limits, metered)
        next()
      }
    }
  return {
    allow: rule({ takesSessions: false, refusesChildKeys: false }),
    account: rule({ takesSessions: true, refusesChildKeys: false }),
    management: rule({ takesSessions: true, refusesChildKeys: true }),
    async withoutKey(request, response, next) {
      // Without Postgres no key is known to be valid, which is no reason to refuse what needs none.
      const answer = await judge(request).catch(() => undefined)
      if (answer?.accepted) {
        const credential = admit(parts, response, answer)
        const limits = requestLimits(parts.tiers[credential.tier], credential)
        const taken = parts.meter.take(credential.keyId, limits, { countsInMonth: false })
        enforceLimits(response, credential, limits, await taken.catch(cause => uncounted(request, cause)))
      } else await chargeAddress(parts, request)
      next()
    },
  }
}

/** The credential of a request that has passed the guard. */
export function credentialOf(response: Response): Credential {
  const { credential } = localsOf(response)
  if (!credential) throw new Error('the route has no guard')
  return credential
}

/** The 403 for what a tier may not do. */
export const forbiddenTier = (detail: string): ApiError => new ApiError('FORBIDDEN_TIER', detail)

const forbiddenChildKey = (): ApiError =>
  new ApiError('FORBIDDEN_CHILD_KEY', 'A child key manages no keys; use the root key or a session.')

function admit(parts: GuardParts, response: Response, answer: KeyAnswer & { accepted: true }): Credential {
  const { credential } = answer
  localsOf(response).credential = credential
  if (credential.kind === 'key') parts.keyUse.note(credential.keyId, parts.now())
  return credential
}

/** A request without a valid key is counted by address before it is refused. */
async function refusalOf(
  parts: GuardParts,
  request: Request,
  { code, detail }: KeyAnswer & { accepted: false },
): Promise<ApiError> {
  await chargeAddress(parts, request)
  return new ApiError(code, detail, { headers: ['WWW-Authenticate', 'Bearer'] })
}

async function chargeAddress({ addresses }: GuardParts, request: Request): Promise<void> {
  const waitSeconds = await addresses.charge(request.socket.remoteAddress)
  if (waitSeconds === undefined) return
  const detail = 'Too many requests without a valid API key came from this address; wait as Retry-After says.'
  throw new ApiError('RATE_LIMIT_EXCEEDED', detail, { headers: ['Retry-After', String(waitSeconds)] })
}

/** Prepares the headers of a counted request, or throws the 429 of one that exceeds a limit. */
function enforceLimits(response: Response, credential: Credential, limits: RequestLimits, metered: Metered): void {
  localsOf(response).rateHeaders = rateHeaders(credential.tier, limits, metered)
  if (metered.refusedBy === undefined) return
  const headers = ['Retry-After', String(metered.retryAfterSeconds)]
  if (metered.refusedBy === 'minute') {
    const detail = `This key may send ${limits.perMinute} requests a minute; wait as Retry-After says.`
    throw new ApiError('RATE_LIMIT_EXCEEDED', detail, { headers })
  }
  const detail = `This key has used up its ${limits.perMonth} requests of the month.`
  throw new ApiError('RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED', detail, { headers })
}

/** No request passes uncounted. */
function uncounted(request: Request, cause: unknown): never {
  const code = LOST_INDEX[request.route?.path] ?? 'SERVICE_UNAVAILABLE'
  throw new ApiError(code, 'Requests cannot be counted at the moment; try again with a growing delay.', { cause })
}

/** A refusal by tier comes before the limits and counts nothing; it only shows them, where they are known. */
async function showLimits({ meter, tiers }: GuardParts, response: Response, credential: Credential): Promise<void> {
  const { keyId, tier } = credential
  const limits = requestLimits(tiers[tier], credential)
  const metered = await meter.read(keyId, limits).catch(() => undefined)
  if (metered) localsOf(response).rateHeaders = rateHeaders(tier, limits, metered)
}

function unreachable(cause: unknown): never {
  throw new ApiError('SERVICE_UNAVAILABLE', 'Keys cannot be checked at the moment.', { cause })
}
