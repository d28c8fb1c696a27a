/**
 * Finds out which account of the game's platform a browser is signed in to: OpenID 2.0, as the platform implements it.
 *
 * Connects to the one endpoint of the environment. Source: OpenID Authentication 2.0, sections 9 to 11, in the mode
 * without an association: what the browser brings back is believed only after the platform itself has confirmed it
 * (check_authentication). Invariant: an id is returned only when endpoint, return address, signed fields, age and
 * confirmation all fit; the caller must make sure that a return is used once.
 */
import { MINUTE_MS } from '#schemas/values/instant.ts'

type PlatformOutcome =
  | { kind: 'platformId'; platformId: string }
  | { kind: 'refused'; reason: string }
  | { kind: 'unreachable'; reason: string }

interface PlatformProviderSettings {
  /** The OpenID 2.0 endpoint; ids are `<its origin>/openid/id/<17 digits>`. */
  endpoint: string
  /** The platform sends browsers back to it. */
  returnTo: string
  /** Root of the addresses that the person is asked to trust. */
  realm: string
}

const VERSION = 'http://specs.openid.net/auth/2.0'
const SELECT = `${VERSION}/identifier_select`
const LIMIT_MS = 5_000
const ANSWER_MAX_BYTES = 8_192
/** An older return is refused: it may be replayed. */
const AGE_MAX_MS = 5 * MINUTE_MS
const NEEDED = ['op_endpoint', 'return_to', 'response_nonce', 'claimed_id', 'identity']

export function openPlatformProvider(settings: PlatformProviderSettings) {
  const { endpoint, realm } = settings
  const returnTo = (state: string): string => `${settings.returnTo}?state=${encodeURIComponent(state)}`
  const idForm = new RegExp(`^${new URL(endpoint).origin.replaceAll('.', '\\.')}/openid/id/([0-9]{17})$`)

  return {
    /** The URL for the browser; `state` comes back in the query. */
    begin(state: string): string {
      const url = new URL(endpoint)
      const parameters = {
        ns: VERSION,
        mode: 'checkid_setup',
        return_to: returnTo(state),
        realm,
        identity: SELECT,
        claimed_id: SELECT,
      }
      for (const [name, value] of Object.entries(parameters)) url.searchParams.set(`openid.${name}`, value)
      return url.href
    },
    /** `query` is that with which the browser came back. */
    async finish(query: string, state: string, now: number): Promise<PlatformOutcome> {
      const params = new URLSearchParams(query)
      const of = (name: string): string => params.get(`openid.${name}`) ?? ''
      if (of('mode') !== 'id_res') return { kind: 'refused', reason: of('mode') === 'cancel' ? 'cancelled' : 'mode' }
      const names = [...params.keys()]
      if (new Set(names).size !== names.length) return { kind: 'refused', reason: 'repeated' }
      const signed = new Set(of('signed').split(','))
      if (!NEEDED.every(name => signed.has(name))) return { kind: 'refused', reason: 'signed' }
      if (of('op_endpoint') !== endpoint) return { kind: 'refused', reason: 'op_endpoint' }
      if (of('return_to') !== returnTo(state)) return { kind: 'refused', reason: 'return_to' }
      const at = Date.parse(of('response_nonce').slice(0, 20))
      if (!(Math.abs(now - at) <= AGE_MAX_MS)) return { kind: 'refused', reason: 'response_nonce' }
      const platformId = idForm.exec(of('claimed_id'))?.[1]
      if (platformId === undefined || of('identity') !== of('claimed_id')) {
        return { kind: 'refused', reason: 'claimed_id' }
      }
      const confirmed = await confirm(endpoint, params)
      if (confirmed === undefined) return { kind: 'unreachable', reason: 'the platform does not answer' }
      return confirmed ? { kind: 'platformId', platformId } : { kind: 'refused', reason: 'is_valid' }
    },
  }
}

/** Asks the platform to confirm the return; undefined when it does not answer. */
async function confirm(endpoint: string, params: URLSearchParams): Promise<boolean | undefined> {
  const body = new URLSearchParams([...params].filter(([name]) => name.startsWith('openid.')))
  body.set('openid.mode', 'check_authentication')
  try {
    const answer = await fetch(endpoint, {
      method: 'POST',
      body,
      redirect: 'error',
      signal: AbortSignal.timeout(LIMIT_MS),
    })
    if (!answer.ok) {
      await answer.body?.cancel()
      return undefined
    }
    return (await readStart(answer)).split('\n').some(line => line.trim() === 'is_valid:true')
  } catch {
    return undefined
  }
}

/** Reads as much of an answer as it may hold. */
async function readStart(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > ANSWER_MAX_BYTES) break
  }
  return Buffer.concat(chunks).toString()
}
