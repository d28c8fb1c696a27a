/**
 * Owners of tables: a table of the migrations is named in the SQL of one room.
 */
import { expect } from 'chai'
import { findSharedTables } from '#infra/checks/table-owners.ts'

const MIGRATION = {
  'infra/postgres/migrations/0001_a.sql': '-- Of bills.\nCREATE TABLE bills (id uuid PRIMARY KEY);\n',
}

const sharedIn = (files: Record<string, string>): string[] =>
  findSharedTables(Object.entries({ ...MIGRATION, ...files }).map(([path, text]) => ({ path, text }))).map(
    ({ file, rule }) => `${rule} ${file}`,
  )

const READ = "export const A = 'SELECT id FROM bills WHERE id = $1'\n"
const WRITE = 'export const B = `WITH b AS (SELECT 1)\n  UPDATE bills SET id = $1`\n'

describe('owners of tables', () => {
  it('let a room name its table in several files', () =>
    expect(sharedIn({ 'services/billing/reader.ts': READ, 'services/billing/keys/commands.ts': WRITE })).to.deep.equal(
      [],
    ))

  it('refuse a table that two rooms name, in both', () =>
    expect(sharedIn({ 'services/billing/commands.ts': WRITE, 'services/api/bills.ts': READ })).to.deep.equal([
      'shared-table services/billing/commands.ts',
      'shared-table services/api/bills.ts',
    ]))

  it('see a table behind a join, a delete and an insert', () => {
    for (const sql of ['FROM a JOIN bills b', 'DELETE FROM bills', 'INSERT INTO bills', 'DELETE FROM a USING bills']) {
      expect(sharedIn({ 'services/a/b.ts': `const s = '${sql}'`, 'services/b/b.ts': READ })).to.have.length(2)
    }
  })

  it('count the tables of jobs, which a library creates', () =>
    expect(
      sharedIn({
        'infra/postgres/jobs.ts': "const a = 'SELECT 1 FROM graphile_worker.jobs'",
        'services/a/b.ts': "const a = 'SELECT 1 FROM graphile_worker.jobs'",
      }),
    ).to.have.length(2))

  it('let tests, comments and tables that no migration creates be', () =>
    expect(
      sharedIn({
        'services/billing/reader.ts': READ,
        'test/integration/bills.test.ts': READ,
        'services/api/note.ts': '/**\n * Rows come FROM bills.\n */\n// FROM bills\n',
        'streams/bills/reader.ts': "const a = 'SELECT 1 FROM changes'",
        'services/feed/reader.ts': "const a = 'SELECT 1 FROM changes'",
      }),
    ).to.deep.equal([]))
})
