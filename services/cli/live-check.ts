/**
 * Asks a running platform over HTTP how far it is: readiness of its processes, its sources and the first live price.
 *
 * Reads only. Every request has a limit, and no answer counts as "not yet".
 */

/** Readiness of one process: ready, or what its roles wait for. */
export interface Readiness {
  isReady: boolean
  /** `role: reason` of each role that is not ready. */
  waiting: string[]
}

const QUESTION_LIMIT_MS = 3_000

/** Asks the `/readyz` of a process; `name` names it when it does not answer. */
export async function askReadiness(origin: string, name: string): Promise<Readiness> {
  const answer = await askJson(`${origin}/readyz`)
  if (answer === undefined) return { isReady: false, waiting: [`${name} is busy`] }
  const roles = (answer.body as { roles?: Record<string, string> }).roles ?? {}
  const waiting = Object.entries(roles)
    .filter(([, state]) => state !== 'ready')
    .map(([role, state]) => `${role}: ${state}`)
  return { isReady: answer.status === 200, waiting }
}

/** The sources that ingest has asked since it started, by side and provider: whether one has ever answered. */
export async function askSources(operatorOrigin: string): Promise<Map<string, boolean>> {
  const { text = '' } = (await ask(`${operatorOrigin}/metrics`)) ?? {}
  const counts = text.matchAll(/^marketlog_ingest_refreshes_total\{(provider=".*",side="\w+"),result="(\w+)"/gm)
  const asked = new Map<string, boolean>()
  for (const [, source = '', result] of counts) asked.set(source, asked.get(source) || result === 'completed')
  return asked
}

/** Number of live asks that the API lists; undefined while that is unknown. */
export async function countLiveAsks(origin: string, key: string): Promise<number | undefined> {
  const answer = await askJson(`${origin}/v1/prices?limit=1`, { authorization: `Bearer ${key}` })
  if (answer?.status !== 200) return undefined
  return (answer.body as { pagination?: { total?: number } }).pagination?.total
}

const LISTS = { ask: '/prices', bid: '/bids', sale: '/sales' }

/** Whether the API lists anything of a side. */
export async function isListed(origin: string, key: string, side: keyof typeof LISTS): Promise<boolean> {
  const answer = await askJson(`${origin}/v1${LISTS[side]}?limit=1`, { authorization: `Bearer ${key}` })
  return answer?.status === 200 && (answer.body as { items: unknown[] }).items.length > 0
}

const SAMPLE_CENTS = 500

/**
 * The name of an item that sample calls can show: of the first page of bids the one with the most buy orders
 * among those of some worth, which has asks, bids and a history. Undefined when there are no bids.
 */
export async function findSampleItem(origin: string, key: string): Promise<string | undefined> {
  const answer = await askJson(`${origin}/v1/bids?limit=1000`, { authorization: `Bearer ${key}` })
  if (answer?.status !== 200) return undefined
  const rows = (answer.body as { items: { market_hash_name: string; highest_bid: number; num_bids: number }[] }).items
  const rank = (row: (typeof rows)[number]) => (row.highest_bid >= SAMPLE_CENTS ? 1e9 : 0) + row.num_bids
  return rows.toSorted((one, other) => rank(other) - rank(one))[0]?.market_hash_name
}

async function askJson(
  url: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; body: unknown } | undefined> {
  const answer = await ask(url, headers)
  return answer && { status: answer.status, body: JSON.parse(answer.text) }
}

async function ask(
  url: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string } | undefined> {
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(QUESTION_LIMIT_MS) })
    return { status: response.status, text: await response.text() }
  } catch {
    return undefined
  }
}
