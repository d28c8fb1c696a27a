/**
 * What a request passes before its parameters are looked at: key, account, tier; then limits.
 *
 * Reads the key directory. Invariant (decisions.md "Further rules"): credential 401, account 403, tier 403,
 * rate limit 429, then validation 422. The limits' place is the end of `pass`: there a credential is accepted
 * and nothing has been parsed.
 */
import type { RequestHandler, Response } from 'express'
import type { Tier } from '#infra/config/tiers.ts'
import type { Credential, KeyAnswer, KeyDirectory } from '#infra/postgres/key-directory.ts'
import { ApiError } from './errors.ts'
import { localsOf } from './reply.ts'

/** Makes the handler that lets only some tiers pass. */
export type Allow = (...tiers: Tier[]) => RequestHandler

/** Opens the guard on a key directory. */
export function openGuard(keys: KeyDirectory): Allow {
  return (...tiers) => {
    const [lowest] = tiers
    /** Every step throws what it refuses; limits are the step after these two. */
    const pass = (response: Response, answer: KeyAnswer): void => {
      const { tier } = admit(response, answer)
      if (!tiers.includes(tier)) throw forbiddenTier(`This route is for the tier ${lowest} and above.`)
    }
    return (request, response, next) => {
      const answer = keys.judge(request.headers.authorization)
      if (answer instanceof Promise) {
        return answer.catch(unreachable).then(judged => {
          pass(response, judged)
          next()
        })
      }
      pass(response, answer)
      next()
    }
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

function admit(response: Response, answer: KeyAnswer): Credential {
  if (!answer.accepted) throw new ApiError(answer.code, answer.detail, { headers: ['WWW-Authenticate', 'Bearer'] })
  localsOf(response).credential = answer.credential
  return answer.credential
}

function unreachable(cause: unknown): never {
  throw new ApiError('SERVICE_UNAVAILABLE', 'Keys cannot be checked at the moment.', { cause })
}
