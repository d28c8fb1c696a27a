/**
 * Names of query parameters that no schema knows, and the known ones that were meant.
 *
 * Pure. A known name in other letters (`ITEM_ID`, `itemId`) or with brackets behind it (`providers[]`) is always a fault: a client that
 * is answered without its filter takes a wrong answer for the right one. With `strict` every unknown name is one.
 */
import type { Violation } from '#schemas/api/error.ts'
import { boolean } from '#schemas/api/query-values.ts'
import { VIOLATIONS_MAX } from './error-text.ts'

/** No parameter's name is longer. */
const COMPARED_MAX = 40

/** The faults of a query's names; `raw` holds its texts by name. */
export function nameFaults(known: readonly string[], raw: Readonly<Record<string, unknown>>): Violation[] {
  const unknown = Object.keys(raw).filter(name => !known.includes(name))
  if (unknown.length === 0) return []
  const isStrict = known.includes('strict') && boolean().safeParse(raw.strict).data === true
  // Of two spellings that are both known the first is the one to write.
  const byForm = new Map(known.toReversed().map(name => [formOf(name), name]))
  const faults: Violation[] = []
  for (const name of unknown) {
    const meant = byForm.get(formOf(name))
    if (meant === undefined && !isStrict) continue
    // Beyond these they are counted alone.
    const nearest = meant ?? (faults.length < VIOLATIONS_MAX ? nearestOf(known, name) : '')
    const msg = meant ? `Parameter should be written ${meant}` : `There is no such parameter; the nearest is ${nearest}`
    faults.push({ type: 'extra_forbidden', loc: ['query', name], msg, input: raw[name], ctx: { expected: nearest } })
  }
  return faults
}

/** What spellings of one name have in common. */
const formOf = (name: string): string => (name.split('[', 1)[0] as string).replaceAll(/[-_]/g, '').toLowerCase()

function nearestOf(known: readonly string[], name: string): string {
  const form = formOf(name).slice(0, COMPARED_MAX)
  const distances = known.map(one => editDistance(formOf(one), form))
  return known[distances.indexOf(Math.min(...distances))] ?? ''
}

/** Letters to add, remove or replace: https://en.wikipedia.org/wiki/Levenshtein_distance. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (let i = 0; i < from.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < to.length; j++) {
      const replaced = (row[j] as number) + (from[i] === to[j] ? 0 : 1)
      next.push(Math.min(replaced, (row[j + 1] as number) + 1, (next[j] as number) + 1))
    }
    row = next
  }
  return row[to.length] as number
}
