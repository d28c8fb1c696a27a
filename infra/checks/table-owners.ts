import type { Finding } from './finding.ts'
import type { SourceFile } from './source-tree.ts'

const MIGRATION = /\/migrations\/[^/]+\.sql$/
const CREATED = /^CREATE TABLE (?:IF NOT EXISTS )?(\w+)/gm
/** Tables that a library creates: the schema of jobs. */
const CREATED_ELSEWHERE = ['graphile_worker']

const NAMED = /\b(?:FROM|JOIN|INTO|UPDATE|USING|TABLE|ONLY)\s+"?(\w+)/g
const COMMENT_LINE = /^\s*(?:\/\*\*|\*|\/\/).*$/gm

/** The files that name, in SQL, a Postgres table that more than one room names; tests look where they like. */
export function findSharedTables(files: readonly SourceFile[]): Finding[] {
  const migrations = files.filter(({ path }) => MIGRATION.test(path))
  const tables = new Set([...migrations.flatMap(({ text }) => namesIn(CREATED, text)), ...CREATED_ELSEWHERE])
  const naming = files
    .filter(({ path }) => path.endsWith('.ts') && !path.startsWith('test/'))
    .flatMap(({ path, text }) =>
      [...new Set(namesIn(NAMED, text.replaceAll(COMMENT_LINE, '')))]
        .filter(table => tables.has(table))
        .map(table => ({ path, room: path.split('/', 2).join('/'), table })),
    )
  return [...Map.groupBy(naming, ({ table }) => table)].flatMap(([table, found]) => {
    const rooms = [...new Set(found.map(({ room }) => room))]
    if (rooms.length < 2) return []
    return found.map(({ path, room }) => ({
      file: path,
      rule: 'shared-table',
      detail: `names the table ${table}, as does ${rooms.filter(other => other !== room).join(', ')}: its owner alone names it, others ask the owner's reader.ts or commands.ts`,
    }))
  })
}

const namesIn = (pattern: RegExp, text: string): string[] => [...text.matchAll(pattern)].map(([, name = '']) => name)
