/**
 * The checks of a request before its parameters: credential, account, tier, limits.
 *
 * Counts in the request meter and the address limit. Invariant (DECISIONS.md, "Order of checks"): credential 401, account 403, tier
 * and kind of key 403, rate limit 429, then validation 422. No request passes uncounted: with a key it counts on the key's lineage,
 * without one on its address, and when the meter fails it is a 503. Every answer to a valid key says what is left of its limits.
 */
import type { Request, Response } from 'express'
import { requestLimits, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import type { AddressBudget, AddressLimit } from '#infra/redis/address-limit.ts'
import type { Metered, RequestLimits, RequestMeter } from '#infra/redis/request-meter.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { Access } from '#schemas/api/operation.ts'
import { exceededLimit } from '#schemas/api/rate-limit.ts'
import { type NeededScope, permits } from '#schemas/api/scopes.ts'
import type { CountFirst, Credential, KeyAnswer } from './credential.ts'
import { HttpError } from './http-error.ts'
import { localsOf } from './reply.ts'

/** What the guard is given. */
export interface GuardNeeds {
  /**
   * Judges the credential of a request, of the kinds that its route takes; rejects when that is not possible. What costs more than a
   * look-up is counted first.
   */
  authenticate(request: Request, access: Access, countFirst: CountFirst): KeyAnswer | Promise<KeyAnswer>
  meter: Pick<RequestMeter, 'take' | 'read'>
  addresses: AddressLimit
  /** The address that a request comes from, behind the proxies that are trusted. */
  clientOf(request: Request): string | undefined
  tiers: Record<Tier, TierLimits>
  /** Called with every accepted key. */
  noteUse(keyId: string): void
  /** Called with the address of every credential that is refused. */
  noteRefused?(address: string | undefined): void
  /** Retry-After of what cannot be checked or counted at the moment; left out unless given. */
  retryAfterSeconds?: number
}

/** What a route asks of a credential. */
export interface RouteRule {
  tiers: readonly string[]
  access: Access
  scope: NeededScope
  /** What is answered when requests cannot be counted. */
  uncountedCode: ErrorCode
}

/** The checks, one by one: who runs them awaits them in one function, since each more cost a request about 1 us of its 65. */
export interface Guard {
  authenticate(request: Request, rule: RouteRule): KeyAnswer | Promise<KeyAnswer>
  /** The refusal of a credential, which is counted by its address. */
  refused(request: Request, answer: KeyAnswer & { accepted: false }): Promise<HttpError>
  accept(response: Response, answer: KeyAnswer & { accepted: true }): Credential
  /** The refusal of what is closed to a credential. */
  closed(credential: Credential, rule: RouteRule): HttpError | undefined
  /** Gives a refusal that comes before the limits their headers, where they are known; counts nothing. */
  withLimits(response: Response, credential: Credential, refusal: HttpError): Promise<HttpError>
  limitsOf(credential: Credential): RequestLimits
  count(credential: Credential, limits: RequestLimits, rule: RouteRule): Promise<Metered>
  /** Prepares the headers of a counted request, or throws the 429 of one that exceeds a limit. */
  enforce(response: Response, credential: Credential, metered: Metered): void
  /** For what needs no key: counts by address in a budget, `requests` unless named, or in the minute of a valid key. */
  passWithoutKey(request: Request, response: Response, budget?: AddressBudget): Promise<void>
}

/** Opens the guard. */
export function openGuard(needs: GuardNeeds): Guard {
  const { retryAfterSeconds: seconds } = needs
  const headers = seconds === undefined ? [] : ['Retry-After', String(seconds)]
  const unreachable = (cause: unknown): never => {
    if (cause instanceof HttpError) throw cause
    throw new HttpError('SERVICE_UNAVAILABLE', 'Keys cannot be checked at the moment.', { headers, cause })
  }
  /** No request passes uncounted. */
  const uncounted = (code: ErrorCode, cause: unknown): never => {
    const detail = 'Requests cannot be counted at the moment; try again with a growing delay.'
    throw new HttpError(code, detail, { headers, cause })
  }
  const limitsOf = (credential: Credential) => requestLimits(needs.tiers[credential.tier], credential)
  const accept: Guard['accept'] = (response, { credential }) => {
    localsOf(response).credential = credential
    if (credential.kind === 'key') needs.noteUse(credential.keyId)
    return credential
  }
  const take = ({ lineageId }: Credential, limits: RequestLimits, countsInMonth: boolean): Promise<Metered> =>
    needs.meter.take(lineageId, limits, { countsInMonth })
  const authenticate = (request: Request, access: Access) =>
    needs.authenticate(request, access, async () => {
      const address = needs.clientOf(request)
      await chargeAddress(needs, address, 'credentials')
      return () => void needs.addresses.giveBack(address, 'credentials')
    })
  /** Counts what comes without a valid key on its address. */
  const charge = async (request: Request, budget: AddressBudget, isCounted = false): Promise<void> => {
    const address = needs.clientOf(request)
    if (budget === 'credentials') needs.noteRefused?.(address)
    if (!isCounted) await chargeAddress(needs, address, budget)
  }
  return {
    limitsOf,
    accept,
    enforce,
    authenticate(request, { access }) {
      const judged = authenticate(request, access)
      return judged instanceof Promise ? judged.catch(unreachable) : judged
    },
    async refused(request, { code, detail, isCounted }) {
      await charge(request, isGuess(request) ? 'credentials' : 'requests', isCounted)
      return new HttpError(code, detail)
    },
    closed,
    async withLimits(response, credential, refusal) {
      const limits = limitsOf(credential)
      const metered = await needs.meter.read(credential.lineageId, limits).catch(() => undefined)
      if (metered) showLimits(response, credential, metered)
      return refusal
    },
    count: (credential, limits, { access, uncountedCode }) =>
      take(credential, limits, access === 'key').catch(cause => uncounted(uncountedCode, cause)),
    async passWithoutKey(request, response, budget = 'requests') {
      // Without Postgres no key is known to be valid, which is no reason to refuse what needs none.
      const answer = await Promise.resolve(authenticate(request, 'key')).catch(() => undefined)
      // Whether a key is valid shows in the headers, so a guess counts as one wherever it is made.
      const isRefused = answer !== undefined && request.headers.authorization !== undefined
      if (!answer?.accepted) return charge(request, isRefused ? 'credentials' : budget)
      const credential = accept(response, answer)
      const limits = limitsOf(credential)
      const taken = take(credential, limits, false)
      enforce(response, credential, await taken.catch(cause => uncounted('SERVICE_UNAVAILABLE', cause)))
    },
  }
}

function closed(credential: Credential, { tiers, access, scope }: RouteRule): HttpError | undefined {
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

async function chargeAddress(
  { addresses }: GuardNeeds,
  address: string | undefined,
  budget: AddressBudget,
): Promise<void> {
  const waitSeconds = await addresses.charge(address, budget)
  if (waitSeconds === undefined) return
  const detail = 'Too many requests without a valid API key came from this address; wait as Retry-After says.'
  const exceeded = exceededLimit('address', addresses.perMinute, waitSeconds, 60)
  throw new HttpError('RATE_LIMIT_EXCEEDED', detail, { exceeded })
}

function enforce(response: Response, credential: Credential, metered: Metered): void {
  showLimits(response, credential, metered)
  const { refusedBy } = metered
  if (refusedBy === undefined) return
  const exceeded = { name: refusedBy, ...metered[refusedBy] }
  if (refusedBy === 'minute') {
    const detail = `This key may send ${exceeded.quota} requests a minute; wait as Retry-After says.`
    throw new HttpError('RATE_LIMIT_EXCEEDED', detail, { exceeded })
  }
  const detail = `The ${exceeded.quota} requests of the month of this key are used up.`
  throw new HttpError('RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED', detail, { exceeded })
}

function showLimits(response: Response, { tier }: Credential, { minute, month, resetAt }: Metered): void {
  localsOf(response).limits = { tier, quota: month, resetAt, allowances: { minute, month } }
}
