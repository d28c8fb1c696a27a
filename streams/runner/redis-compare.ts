/** Compares versions of a view in Redis, key by key and row by row: fields of hashes, members of sorted sets. */
import type { KeyWrite } from '#infra/redis/guarded-write.ts'
import { readSlots } from '#infra/redis/servers.ts'
import type { Comparison, DifferentRows } from './build.ts'
import { leaveOut, noFindings } from './findings.ts'
import { versionKeys } from './redis-versions.ts'
import type { RedisVersion, RedisView } from './view.ts'

/** The version of a partition that is read, and the one that the log gives. */
export interface ComparedVersions {
  found: RedisVersion
  expected: RedisVersion
  /** Rows that cannot be compared, and why. */
  leftOut: ReadonlyMap<string, string>
}

/** The rows of two keys, each as name, text, name, text... */
const ROWS = `
local answer = {}
for i = 1, 2 do
  local type = redis.call('TYPE', KEYS[i]).ok
  if type == 'hash' then answer[i] = redis.call('HGETALL', KEYS[i])
  elseif type == 'zset' then answer[i] = redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES')
  else answer[i] = {} end
end
return answer`

/** Names of rows that writes touch. */
export function rowsOf(writes: readonly KeyWrite[]): string[] {
  return writes.flatMap(({ command, key, args }) => {
    const name = key.replace(/^.*?\}:\d+:/, '')
    // Of pairs, the row is the first of a hash and the second of a sorted set.
    const isRow = { HSET: (at: number) => at % 2 === 0, ZADD: (at: number) => at % 2 === 1 }[command as string]
    return args.filter((_, at) => isRow?.(at) ?? true).map(row => `${name} ${row}`)
  })
}

/** Compares all rows, or those of keys with suspects alone. */
export async function compareRows(
  view: RedisView,
  pairs: readonly ComparedVersions[],
  suspects: DifferentRows | undefined,
  report: (step: string) => void,
): Promise<Comparison> {
  const findings = noFindings()
  const different: DifferentRows = new Map()
  const [first] = pairs
  if (first === undefined) return { findings, different }
  const { redis } = first.found
  const compareKey = async (pair: ComparedVersions, name: string): Promise<void> => {
    const keys = [pair.found, pair.expected].map(of => `${view.rootOf(of.partition, of.prefix)}:${of.version}:${name}`)
    const [found, expected] = ((await redis.eval(ROWS, keys.length, ...keys)) as string[][]).map(pairsOf)
    for (const row of new Set([...(found?.keys() ?? []), ...(expected?.keys() ?? [])])) {
      const reason = pair.leftOut.get(`${name} ${row}`)
      const texts = { found: found?.get(row), expected: expected?.get(row) }
      if (reason !== undefined) leaveOut(findings, reason)
      else if (texts.found !== texts.expected) different.set(`${name} ${row}`, texts)
      else findings.compared += 1
    }
  }
  const suspectKeys = suspects && new Set([...suspects.keys()].map(row => row.slice(0, row.lastIndexOf(' '))))
  const slots = await readSlots(redis)
  const seen = new Set<string>()
  const partitions = pairs.map(({ found }) => found)
  const pairOf = new Map(pairs.map(pair => [pair.found.partition, pair]))
  for await (const page of versionKeys(view, partitions)) {
    const compared: Promise<void>[] = []
    for (const { name, of } of page) {
      const pair = pairOf.get(of.partition)
      if (of.version !== pair?.found.version && of.version !== pair?.expected.version) continue
      const key = `${of.partition} ${name}`
      if (pair === undefined || seen.has(key) || suspectKeys?.has(name) === false) continue
      seen.add(key)
      compared.push(compareKey(pair, name))
    }
    await Promise.all(compared)
    report(`comparing ${seen.size.toLocaleString('en')} keys`)
  }
  // A key whose slot moves may not have come.
  if (slots === undefined || slots !== (await readSlots(redis)))
    throw new Error('the Cluster is moving slots: verify the view when that has ended')
  return { findings, different }
}

function pairsOf(rows: readonly string[]): Map<string, string> {
  const pairs = new Map<string, string>()
  for (let at = 0; at + 1 < rows.length; at += 2) pairs.set(rows[at] as string, rows[at + 1] as string)
  return pairs
}
