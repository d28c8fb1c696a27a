import type { ClickhouseReader, ClickhouseWriter, RowInsert } from '#infra/clickhouse/clickhouse.ts'
import { readStoredViews, tableOf } from '#streams/runner/table-versions.ts'

/** The same client, in whose statements and inserts a table of a view is the one of the version that is read. */
export function inVersions<C extends ClickhouseReader>(client: C): C {
  const { command, insert } = client as Partial<ClickhouseWriter>
  const names = new RegExp(`\\b${client.database}\\.(\\w+)`, 'g')
  async function nameOf(): Promise<(table: string) => string> {
    const stored = await readStoredViews(client)
    const tables = new Map<string, string>()
    for (const { named } of stored.names.map(stored.of))
      for (const table of Object.keys(named?.tables ?? {})) if (named) tables.set(table, tableOf(table, named))
    return table => tables.get(table) ?? table
  }
  async function renamed(statement: string): Promise<string> {
    const rename = await nameOf()
    return statement.replaceAll(names, (_, table: string) => `${client.database}.${rename(table)}`)
  }
  return {
    ...client,
    rows: async (query, params, signal) => client.rows(await renamed(query), params, signal),
    columns: async (selection, params) => client.columns({ ...selection, from: await renamed(selection.from) }, params),
    ...(command && {
      command: async (statement: string, params?: object) => command(await renamed(statement), { ...params }),
    }),
    ...(insert && { insert: async (rows: RowInsert) => insert({ ...rows, table: (await nameOf())(rows.table) }) }),
  } as C
}
