/**
 * What set-up changes of the tables in ClickHouse: it creates those that are missing, and adds the columns and settings that they lack.
 *
 * Decides only; table.ts carries out. Invariant: every change is additive, so that roles of the version before go on writing and
 * reading: an insert names its columns, and one that it does not name takes its default. Columns of a newer version stay. What is
 * not additive is a fault. A setting or an expiry that differs is the operator's and stays.
 */
import { createTable, onCluster, settingsOf, type Table } from './table.ts'

/** A table as the server has it. */
export interface FoundTable {
  name: string
  /** Engine, keys, expiry and settings as one text. */
  engineFull: string
  sortingKey: string
  partitionKey: string
  /** Column → type. */
  columns: ReadonlyMap<string, string>
}

/** A change to a table, or why it cannot be changed. */
export type TableChange = { table: string; statement: string } | { table: string; fault: string }

/** A granule's size is part of every stored row's address. */
const UNALTERABLE = 'index_granularity'

/** Made by platforms whose views had no positions of their own; none was released. */
const FORMER = 'view_switches'

/** The changes that bring the tables of a database to what is declared, in their order. */
export function tableChanges(
  { database, cluster }: { database: string; cluster: string | undefined },
  declared: readonly Table[],
  found: ReadonlyMap<string, FoundTable>,
): TableChange[] {
  if (found.has(FORMER)) {
    const fault = `${FORMER} is of an earlier form of the platform, whose data cannot be taken over: \`make clean\` wipes all of it`
    return [{ table: FORMER, fault }]
  }
  return declared.flatMap((table): TableChange[] => {
    const present = found.get(table.name)
    if (present === undefined) return [{ table: table.name, statement: createTable(database, table, cluster) }]
    const faults = faultsOf(table, present)
    if (faults.length > 0) return faults.map(fault => ({ table: table.name, fault: `${table.name}: ${fault}` }))
    const additions = [...missingColumns(table, present), ...missingSettings(table, present)]
    if (additions.length === 0) return []
    return [
      {
        table: table.name,
        statement: `ALTER TABLE ${database}.${table.name}${onCluster(cluster)} ${additions.join(', ')}`,
      },
    ]
  })
}

function faultsOf(table: Table, found: FoundTable): string[] {
  const types = Object.entries(table.columns).flatMap(([name, declared]) => {
    const present = found.columns.get(name)
    return present === undefined || plain(present) === plain(typeOf(declared))
      ? []
      : [`column ${name} is ${present} on the server and ${typeOf(declared)} in this version`]
  })
  const parts: [what: string, present: string, declared: string][] = [
    ['engine', engineOf(found.engineFull), table.engine],
    ['ORDER BY', found.sortingKey, table.orderBy],
    ['PARTITION BY', found.partitionKey, table.partitionBy],
  ]
  const granule = [settingsIn(found.engineFull), new Map(settingsOf(table))].map(each => each.get(UNALTERABLE))
  if (granule[1] !== undefined) parts.push([UNALTERABLE, granule[0] ?? '', granule[1]])
  const others = parts.flatMap(([what, present, declared]) =>
    keyText(present) === keyText(declared)
      ? []
      : [`${what} is ${present} on the server and ${declared} in this version`],
  )
  return [...types, ...others].map(
    each =>
      `${each}. Set-up only adds columns: give the new form a table of its own name, or start the version that made this one`,
  )
}

function missingColumns(table: Table, found: FoundTable): string[] {
  const names = Object.keys(table.columns)
  return names.flatMap((name, at) => {
    if (found.columns.has(name)) return []
    const place = at === 0 ? 'FIRST' : `AFTER ${names[at - 1]}`
    return [`ADD COLUMN IF NOT EXISTS ${name} ${table.columns[name]} ${place}`]
  })
}

function missingSettings(table: Table, found: FoundTable): string[] {
  const present = settingsIn(found.engineFull)
  return settingsOf(table).flatMap(([name, value]) =>
    present.has(name) || name === UNALTERABLE ? [] : [`MODIFY SETTING ${name} = ${value}`],
  )
}

/** The type of a declared column, without its default or codec. */
const typeOf = (declared: string): string => declared.split(/ (?:DEFAULT|CODEC)\b/)[0] ?? declared

const plain = (text: string): string => text.replaceAll(/\s/g, '')

/** An expression without what the server writes otherwise: blanks, and the parentheses around a list. */
const keyText = (text: string): string => {
  const bare = plain(text)
  if (bare === 'tuple()') return ''
  return bare.startsWith('(') && bare.endsWith(')') && closesAt(bare) === bare.length - 1 ? bare.slice(1, -1) : bare
}

/** Where the parenthesis closes that opens the text. */
function closesAt(text: string): number {
  let depth = 0
  for (const [at, letter] of [...text].entries()) {
    if (letter === '(') depth += 1
    else if (letter === ')') depth -= 1
    if (depth === 0) return at
  }
  return -1
}

/** `ReplacingMergeTree(version)`: replicated tables name their path and replica before it. */
function engineOf(engineFull: string): string {
  const engine = (engineFull.split(/ (?:PARTITION BY|ORDER BY|PRIMARY KEY)\b/)[0] ?? '').replace(
    /^(?:Replicated|Shared)/,
    '',
  )
  return engine.replace(/\('[^']*', '[^']*'(?:, )?/, '(').replace(/\(\)$/, '')
}

/** The settings that a table has of its own. */
function settingsIn(engineFull: string): Map<string, string> {
  const text = engineFull.split(/ SETTINGS /)[1] ?? ''
  return new Map(
    text.split(', ').flatMap(one => {
      const [name, value] = one.split(' = ')
      return name && value !== undefined ? [[name.trim(), value.trim()] as const] : []
    }),
  )
}
