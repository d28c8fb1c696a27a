/**
 * What every ClickHouse table of the platform is made of: columns, engine, order, partitions, retention.
 *
 * Invariant: every table replaces or merges rows of one key, so that writing the
 * same rows again, in any order and any number of times, changes nothing for its readers.
 */

/** One table; `columns` are in the order in which rows are written. */
export interface Table {
  readonly name: string
  /** The only role that writes it. */
  readonly writer: string
  /** Column → type, with its DEFAULT where it joined later; the first row of every insert lists them in this order. */
  readonly columns: Readonly<Record<string, string>>
  readonly engine: string
  readonly orderBy: string
  readonly partitionBy: string
  /** Expression of a Date or DateTime after which a row may go. */
  readonly expires?: string
  /** Rows of a granule, the least that a read takes; fewer than the server's 8,192 where reads are of single items. */
  readonly granularity?: number
  /** All columns of a stored part in one file, however large it is: a read of one item opens one instead of twenty. */
  readonly isCompact?: boolean
}

/** No part is as large. */
const WIDE_FROM_BYTES = 2 ** 50

/** What a statement that makes or drops tables says so that all replicas of a cluster do it; nothing for one server. */
export const onCluster = (cluster: string | undefined): string =>
  cluster === undefined ? '' : ` ON CLUSTER \`${cluster}\``

/** The statement that creates a table where it is missing: on one server, or replicated on all of a cluster. */
export function createTable(database: string, table: Table, cluster?: string): string {
  const columns = Object.entries(table.columns).map(([name, type]) => `  ${name} ${type}`)
  return [
    `CREATE TABLE IF NOT EXISTS ${database}.${table.name}${onCluster(cluster)} (`,
    columns.join(',\n'),
    ')',
    `ENGINE = ${cluster === undefined ? table.engine : replicated(table.engine)}`,
    `PARTITION BY ${table.partitionBy}`,
    `ORDER BY ${table.orderBy}`,
    ...(table.expires ? [`TTL ${table.expires}`] : []),
    `SETTINGS ${settingsOf(table)
      .map(([name, value]) => `${name} = ${value}`)
      .join(', ')}`,
  ].join('\n')
}

/** By the table's UUID: a path by name may still be taken after a table of that name was dropped. */
const REPLICA = "'/clickhouse/tables/{uuid}/{shard}', '{replica}'"

/** `ReplacingMergeTree(version)` as its replicated counterpart. */
function replicated(engine: string): string {
  const [, name, given] = /^(\w*MergeTree)(?:\((.*)\))?$/.exec(engine) ?? []
  if (name === undefined) throw new Error(`${engine} has no replicated counterpart`)
  return `Replicated${name}(${[REPLICA, ...(given ? [given] : [])].join(', ')})`
}

/** The settings of a table, in their order. */
const settingsOf = ({ granularity, isCompact }: Table): [name: string, value: string][] => {
  const settings: [string, string][] = [
    ['ttl_only_drop_parts', '1'],
    // An insert is answered when its rows are on the disk: a position that follows them must not outlive them.
    ['fsync_after_insert', '1'],
    ['fsync_part_directory', '1'],
  ]
  if (granularity !== undefined) settings.push(['index_granularity', String(granularity)])
  if (isCompact) settings.push(['min_bytes_for_wide_part', String(WIDE_FROM_BYTES)])
  return settings
}
