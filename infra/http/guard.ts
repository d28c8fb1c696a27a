/**
 * The checks of a request before its parameters: credential, account, tier, limits.
 *
 * Counts in the request meter and the address limit. Invariant (DECISIONS.md, "Order of checks"): credential 401, account 403, tier
 * and kind of key 403, rate limit 429, then validation 422. No request passes uncounted: with a key it counts on the key's lineage,
 * without one on its address, and when the meter fails it is a 503. Every answer to a valid key says what is left of its limits.
 */
import type { Request, Response } from 'express'
import { requestLimits, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import type { AddressBudget, AddressLimit } from '#infra/redis/rate-limit.ts'
import type { Metered, RequestMeter } from '#infra/redis/request-meter.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { Access } from '#schemas/api/operation.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'
import { type NeededScope, permits } from '#schemas/api/scopes.ts'
import type { CountFirst, Credential, KeyAnswer } from './credential.ts'
import { HttpError } from './http-error.ts'
import { localsOf } from './reply.ts'

export interface GuardNeeds {
  /**
   * Checks the credential of a request, of the kinds that its route takes; rejects when that is not possible. What costs more than a
   * look-up is counted first.
   */
  authenticate(request: Request, access: Access, countFirst: CountFirst): KeyAnswer | Promise<KeyAnswer>
  meter: Pick<RequestMeter, 'take' | 'read'>
  addresses: AddressLimit
  /** The address that a request comes from, behind the proxies that are trusted. */
  clientOf(request: Request): string | undefined
  tiers: Record<Tier, TierLimits>
  noteUse(keyId: string): void
  /** Called with the address of every credential that is refused. */
  noteRefused?(address: string | undefined): void
  /** Retry-After of what cannot be checked or counted at the moment; left out unless given. */
  retryAfterSeconds?: number
}

interface RouteRule {
  tiers: readonly string[]
  access: Access
  scope: NeededScope
  /** Answered when requests cannot be counted. */
  uncountedCode: ErrorCode
}

export type Guard = ReturnType<typeof openGuard>

export function openGuard(needs: GuardNeeds) {
  const { meter, addresses, retryAfterSeconds: seconds } = needs
  const headers = seconds === undefined ? [] : ['Retry-After', String(seconds)]
  const limitsOf = (credential: Credential) => requestLimits(needs.tiers[credential.tier], credential)
  const accept = (response: Response, credential: Credential): void => {
    localsOf(response).credential = credential
    if (credential.kind === 'key') needs.noteUse(credential.keyId)
  }
  /** Counts a request of a valid key, or throws the 429 of one that exceeds a limit; no request passes uncounted. */
  const count = async (response: Response, credential: Credential, countsInMonth: boolean, code: ErrorCode) => {
    const taking = meter.take(credential.lineageId, limitsOf(credential), { countsInMonth })
    const metered = await taking.catch(cause => {
      const detail = 'Requests cannot be counted at the moment; try again with a growing delay.'
      throw new HttpError(code, detail, { headers, cause })
    })
    showLimits(response, credential, metered)
    if (metered.refusedBy !== undefined) throw exceededBy(metered, metered.refusedBy)
  }
  const chargeAddress = async (address: string | undefined, budget: AddressBudget): Promise<void> => {
    const waitSeconds = await addresses.charge(address, budget)
    if (waitSeconds === undefined) return
    const detail = 'Too many requests without a valid API key came from this address; wait as Retry-After says.'
    const exceeded = exceededLimit('address', addresses.perMinute, waitSeconds, 60)
    throw new HttpError('RATE_LIMIT_EXCEEDED', detail, { exceeded })
  }
  const chargeRequest = async (request: Request, budget: AddressBudget, isCounted = false): Promise<void> => {
    const address = needs.clientOf(request)
    if (budget === 'credentials') needs.noteRefused?.(address)
    if (!isCounted) await chargeAddress(address, budget)
  }
  const authenticate = async (request: Request, access: Access): Promise<KeyAnswer> =>
    needs.authenticate(request, access, async () => {
      const address = needs.clientOf(request)
      await chargeAddress(address, 'credentials')
      return () => void addresses.giveBack(address, 'credentials')
    })
  return {
    async authorize(request: Request, response: Response, rule: RouteRule): Promise<Credential> {
      const answer = await authenticate(request, rule.access).catch(cause => {
        if (cause instanceof HttpError) throw cause
        throw new HttpError('SERVICE_UNAVAILABLE', 'Keys cannot be checked at the moment.', { headers, cause })
      })
      if (!answer.accepted) {
        await chargeRequest(request, isGuess(request) ? 'credentials' : 'requests', answer.isCounted)
        throw new HttpError(answer.code, answer.detail)
      }
      const { credential } = answer
      accept(response, credential)
      const refusal = refusalOf(credential, rule)
      if (!refusal) {
        await count(response, credential, rule.access === 'key', rule.uncountedCode)
        return credential
      }
      // It comes before the limits, and shows them where they are known.
      const metered = await meter.read(credential.lineageId, limitsOf(credential)).catch(() => undefined)
      if (metered) showLimits(response, credential, metered)
      throw refusal
    },
    /** For what needs no key: counts by address in a budget, or in the minute of a valid key. */
    async passWithoutKey(request: Request, response: Response, budget: AddressBudget = 'requests'): Promise<undefined> {
      // Without Postgres no key is known to be valid, which is no reason to refuse what needs none.
      const answer = await authenticate(request, 'key').catch(() => undefined)
      // Whether a key is valid shows in the headers, so a guess counts as one wherever it is made.
      const isRefused = answer !== undefined && request.headers.authorization !== undefined
      if (!answer?.accepted) return void (await chargeRequest(request, isRefused ? 'credentials' : budget))
      accept(response, answer.credential)
      await count(response, answer.credential, false, 'SERVICE_UNAVAILABLE')
    },
  }
}

function refusalOf(credential: Credential, { tiers, access, scope }: RouteRule): HttpError | undefined {
  const { tier, isRootKey, scopes, isRecentSession } = credential
  if (!tiers.includes(tier)) {
    return new HttpError('FORBIDDEN_TIER', `This route is for the tier ${tiers[0]} and above.`)
  }
  if ((access === 'management' || access === 'recent-session') && !isRootKey) {
    return new HttpError('FORBIDDEN_CHILD_KEY', 'A child key manages no keys; use the root key or a session.')
  }
  if (access === 'recent-session' && !isRecentSession) {
    const detail =
      'This takes the session of a sign-in within the last ten minutes; sign in again at GET /account/login.'
    return new HttpError('RECENT_SESSION_REQUIRED', detail)
  }
  if (permits(scopes, scope)) return undefined
  const needed = scope === 'none' ? 'No scope opens this route' : `This route needs the scope ${scope}`
  return new HttpError('FORBIDDEN_SCOPE', `${needed}; this key has ${scopes?.join(', ')} alone.`)
}

/** Whether a refused request came with a key or session, or with the token of a feed. */
const isGuess = ({ headers, url }: Request): boolean => headers.authorization !== undefined || /[?&]token=/.test(url)

function exceededBy(metered: Metered, limit: 'minute' | 'month'): HttpError {
  const { quota } = metered[limit]
  const [code, detail] = {
    minute: ['RATE_LIMIT_EXCEEDED', `This key may send ${quota} requests a minute; wait as Retry-After says.`] as const,
    month: [
      'RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED',
      `The ${quota} requests of the month of this key are used up.`,
    ] as const,
  }[limit]
  return new HttpError(code, detail, { exceeded: { name: limit, ...metered[limit] } })
}

function showLimits(response: Response, { tier }: Credential, { minute, month, resetAt }: Metered): void {
  localsOf(response).limits = { tier, quota: month, resetAt, allowances: { minute, month } }
}
