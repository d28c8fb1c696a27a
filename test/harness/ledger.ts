/**
 * The ledger of a fault test: what should have happened beside what did.
 *
 * Invariant: every entry of either list is accounted for once: it agrees, is lost (expected, never came), doubled (came more often
 * than expected), phantom (came, never expected) or out of order (came, but not in the order that its key expects). A ledger that
 * expects fewer entries than its scenario promises, one where it says nothing, proves nothing and does not balance.
 */

/** One thing that happened to a key; equal texts are the same thing. */
export interface LedgerEntry {
  key: string
  what: string
}

export interface Ledger {
  least: number
  keys: number
  expected: number
  actual: number
  lost: number
  doubled: number
  phantom: number
  outOfOrder: number
  examples: string[]
}

const EXAMPLES_KEPT = 5

/** Compares what was expected, at least so many entries, with what came; both in the order of their keys' histories. */
export function openLedger(expected: Iterable<LedgerEntry>, actual: Iterable<LedgerEntry>, least = 1): Ledger {
  if (!(least >= 1)) throw new RangeError(`a ledger of at least ${least} entries proves nothing`)
  const [wanted, came] = [expected, actual].map(entries => Map.groupBy(entries, ({ key }) => key)) as [Entries, Entries]
  const keys = new Set([...wanted.keys(), ...came.keys()])
  const counts = { expected: 0, actual: 0, lost: 0, doubled: 0, phantom: 0, outOfOrder: 0 }
  const ledger: Ledger = { least, keys: keys.size, ...counts, examples: [] }
  const textsOf = (entries: Entries, key: string) => (entries.get(key) ?? []).map(({ what }) => what)
  for (const key of keys) account(ledger, key, textsOf(wanted, key), textsOf(came, key))
  return ledger
}

type Entries = Map<string, LedgerEntry[]>

/** Whether nothing is lost, doubled, phantom or out of order, among as many entries as were promised. */
export function isBalanced({ least, expected, lost, doubled, phantom, outOfOrder }: Ledger): boolean {
  return expected >= least && lost + doubled + phantom + outOfOrder === 0
}

/** The ledgers of several views as one table, faults' examples below it. */
export function ledgerTable(ledgers: Record<string, Ledger>): string {
  const columns = ['least', 'keys', 'expected', 'actual', 'lost', 'doubled', 'phantom', 'outOfOrder'] as const
  const names = ['least', 'keys', 'expected', 'actual', 'lost', 'doubled', 'phantom', 'out of order']
  const rows = [
    ['', ...names],
    ...Object.entries(ledgers).map(([view, ledger]) => [view, ...columns.map(column => String(ledger[column]))]),
  ]
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map(row => row[at]?.length ?? 0))) ?? []
  const line = (row: string[]) =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join('  ')
  const examples = Object.entries(ledgers).flatMap(([view, ledger]) => ledger.examples.map(text => `${view}: ${text}`))
  return [...rows.map(line), ...examples].map(text => `      ${text}`).join('\n')
}

export function expectBalanced(ledgers: Record<string, Ledger>, say: (table: string) => void = console.log): void {
  const table = ledgerTable(ledgers)
  say(table)
  if (Object.keys(ledgers).length === 0) throw new Error('nothing is compared with the reference')
  const broken = Object.entries(ledgers).filter(([, ledger]) => !isBalanced(ledger))
  if (broken.length > 0)
    throw new Error(
      `${broken.map(([view]) => view).join(', ')} differ from the reference or hold less than promised:\n${table}`,
    )
}

function account(ledger: Ledger, key: string, expected: readonly string[], actual: readonly string[]): void {
  ledger.expected += expected.length
  ledger.actual += actual.length
  // Indexes of each text in the expected list; what comes takes them first to last.
  const indexes = new Map<string, number[]>()
  for (const [at, what] of expected.entries()) indexes.set(what, [...(indexes.get(what) ?? []), at])
  const known = new Set(expected)
  const order: number[] = []
  for (const what of actual) {
    const index = indexes.get(what)?.shift()
    if (index !== undefined) order.push(index)
    else if (known.has(what)) note(ledger, 'doubled', key, what)
    else note(ledger, 'phantom', key, what)
  }
  for (const [what, left] of indexes) for (const _ of left) note(ledger, 'lost', key, what)
  const misplaced = order.length - longestRise(order)
  for (let count = 0; count < misplaced; count++) note(ledger, 'outOfOrder', key, actual.join(' then '))
}

function note(ledger: Ledger, fault: 'lost' | 'doubled' | 'phantom' | 'outOfOrder', key: string, what: string): void {
  ledger[fault] += 1
  if (ledger.examples.length < EXAMPLES_KEPT) ledger.examples.push(`${fault} ${key}: ${what.slice(0, 300)}`)
}

/** Length of the longest rising subsequence: all else had to move (patience sorting). */
function longestRise(order: readonly number[]): number {
  const ends: number[] = []
  for (const index of order) {
    let low = 0
    let high = ends.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((ends[middle] ?? 0) < index) low = middle + 1
      else high = middle
    }
    ends[low] = index
  }
  return ends.length
}

interface Figure {
  test: string
  what: string
  value: number
  unit: 's' | 'times' | 'share' | 'values' | 'KiB'
  limit: { atMost: number } | { atLeast: number }
}

/** Prints a figure of a run; throws when it is beyond its limit, or none at all. */
export function expectFigure({ test, what, value, unit, limit }: Figure): void {
  const [word, bound] = 'atMost' in limit ? ['at most', limit.atMost] : ['at least', limit.atLeast]
  const line = `${test}: ${what} ${Number(value).toPrecision(3)} ${unit} (${word} ${bound})`
  console.log(`      ${line}`)
  const holds = 'atMost' in limit ? value <= limit.atMost : value >= limit.atLeast
  if (!holds) throw new Error(line)
}
