/** Limits on the number of requests are lifted, all others are as built in. */
import { TIERS, type Tier } from '#infra/config/tiers.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { type DescriptionCheck, fetchDescriptionCheck } from './described-answers.ts'
import { writeRoomyTiers } from './roomy-tiers.ts'
import type { StartedRoles } from './start-roles.ts'
import type { TestPlatform } from './test-platform.ts'

export interface Answer {
  status: number
  headers: Headers
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
  body: any
}

export interface Ask {
  /** A tier's key, or a key's or token's text, or null for none. */
  as?: Tier | null | (string & {})
  method?: string
  /** A text and bytes are sent as they are, all else as JSON. */
  body?: unknown
  headers?: Record<string, string>
}

export type Scenario = Awaited<ReturnType<typeof openScenario>>

/** Starts roles, the API alone where none are named; requests may name some keys by their tier. */
export async function openScenario(
  platform: TestPlatform,
  options: {
    roles?: readonly (RoleName | StartRole)[]
    config?: Partial<PlatformConfig>
    keys?: Record<Tier, string>
  } = {},
) {
  const startAnother = async (): Promise<StartedRoles> => {
    const tiersFile = writeRoomyTiers(platform.config.stateDir)
    const started = await platform.startRoles(options.roles ?? ['api'], { tiersFile, ...options.config })
    await started.ready()
    return started
  }
  const roles = await startAnother()
  const check = await fetchDescriptionCheck(roles.baseUrl)
  return {
    platform,
    database: platform.database,
    roles,
    check,
    /** Starts the same roles once more, as other processes would run them. */
    startAnother,
    /** Asks the service; throws when the answer deviates from the API's description. */
    ask: (path: string, ask: Ask = {}): Promise<Answer> =>
      request(roles.baseUrl, check, path, { ...ask, as: keyOf(options.keys, ask.as) }),
    close: (): Promise<void> => roles.stop(),
  }
}

export async function keysOfTiers(platform: TestPlatform): Promise<Record<Tier, string>> {
  const keys = {} as Record<Tier, string>
  for (const tier of TIERS) keys[tier] = await platform.newKey(tier)
  return keys
}

/** The highest tier's key where nothing is named. */
const keyOf = (keys: Record<Tier, string> | undefined, as: Ask['as']): string | null =>
  as === undefined ? (keys?.quant ?? null) : (keys?.[as as Tier] ?? as)

/** Holds a refusal to saying what it exceeds. */
function expectExceeded(headers: Headers, what: string): void {
  const [, name, wait] = /^"([a-z-]+)";r=0;t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? []
  const isNamed = headers.get('ratelimit-policy')?.includes(`"${name}";q=`)
  if (isNamed && wait === headers.get('retry-after') && Number(wait) > 0) return
  throw new Error(`${what} exceeds ${headers.get('ratelimit')}, Retry-After ${headers.get('retry-after')}`)
}

/** Sends one request and holds its answer against the description. */
async function request(baseUrl: string, check: DescriptionCheck, path: string, ask: Ask): Promise<Answer> {
  const { as, method = 'GET', headers = {}, body } = ask
  const isWritten = typeof body === 'string' || body instanceof Uint8Array
  const answer = await fetch(baseUrl + path, {
    method,
    redirect: 'manual',
    headers: {
      ...(as && { authorization: `Bearer ${as}` }),
      ...(body !== undefined && !isWritten && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: isWritten ? body : JSON.stringify(body) }),
  })
  const text = await answer.text()
  if (answer.status === 429) expectExceeded(answer.headers, `${method} ${path}`)
  const type = answer.headers.get('content-type')
  const isJson = type?.startsWith('application/json') && text !== ''
  const parsed = isJson ? JSON.parse(text) : undefined
  check({ method, path, status: answer.status, type, body: type?.startsWith('text/') ? text : parsed })
  return { status: answer.status, headers: answer.headers, text, body: parsed }
}
