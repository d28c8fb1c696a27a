/**
 * The only access to ClickHouse: a reading and a writing client, each with bounded waits.
 *
 * Reads and writes what its callers ask for. Invariant: no request outlives its limit, every answer is
 * read or closed, and 64-bit integers arrive as numbers, which holds since stored amounts stay below
 * 2^53. Requests are not compressed: on a near network that costs more than it saves.
 */
import { Agent } from 'node:https'
import { isIP } from 'node:net'
import { Readable } from 'node:stream'
import { connect } from 'node:tls'
import {
  type ClickHouseClient,
  ClickHouseError,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
} from '@clickhouse/client'
import { type ClickhouseAddress, parseClickhouseAddress } from '../runtime/clickhouse-address.ts'
import { Refused, refusedCertificate } from '../runtime/refused.ts'
import { readTlsFiles } from '../runtime/tls-files.ts'
import { decodeColumns } from './row-binary.ts'

export interface ClickhouseReader {
  readonly database: string
  /** The cluster on which tables are made; undefined: on the one server. */
  readonly cluster: string | undefined
  /** The rows of a query; it refers to parameters as `{name:Type}`. */
  rows<T>(query: string, params?: Record<string, unknown>, signal?: AbortSignal): Promise<T[]>
  /** For answers of thousands of rows, which others need not wait for: columns by name. */
  columns<T extends string, N extends string>(
    selection: Selection<T, N>,
    params?: Record<string, unknown>,
  ): Promise<Columns<T, N>>
  close(): Promise<void>
}

/** What is selected of each row, by name: texts of less than 128 bytes, and what Float64 holds. */
export interface Selection<T extends string, N extends string> {
  texts: Readonly<Record<T, string>>
  numbers: Readonly<Record<N, string>>
  /** All that follows the columns. */
  from: string
}

export type Columns<T extends string, N extends string> = Record<T, string[]> & Record<N, Float64Array>

/** Rows of one table, each the JSON text of its values in the order of the columns. */
export interface RowInsert {
  table: string
  columns: readonly string[]
  rows: readonly string[]
}

export interface ClickhouseWriter extends ClickhouseReader {
  command(statement: string, params?: Record<string, unknown>): Promise<void>
  insert(insert: RowInsert): Promise<void>
}

interface ClickhouseOptions {
  database: string
  /** Shown in the server's query log. */
  name: string
  /** How long a read may take; 20 seconds by default. */
  readLimitMs?: number
}

const READ_LIMIT_MS = 20_000
const WRITE_LIMIT_MS = 60_000
const READERS_AT_ONCE = 16
const WRITERS_AT_ONCE = 4

const NUMBERS: ClickHouseSettings = { output_format_json_quote_64bit_integers: 0 }

/** Opens the reading client; its user should have no right but SELECT. */
export function openReader(url: string, options: ClickhouseOptions): ClickhouseReader {
  const { readLimitMs = READ_LIMIT_MS } = options
  const client = clientOf(url, options, readLimitMs, READERS_AT_ONCE, {
    ...NUMBERS,
    max_execution_time: readLimitMs / 1000,
    // A reader that hangs up stops its query; the server heeds this for read-only users alone.
    cancel_http_readonly_queries_on_client_close: 1,
  })
  return readerOf(client, options.database, url)
}

export function openWriter(url: string, options: ClickhouseOptions): ClickhouseWriter {
  const client = clientOf(url, options, WRITE_LIMIT_MS, WRITERS_AT_ONCE, {
    ...NUMBERS,
    // A backfill may touch years in one batch.
    throw_on_max_partitions_per_insert_block: 0,
    // Answered when the rows are stored, on most of the replicas of a cluster; the tables have them on the disk by then (table.ts).
    async_insert: 0,
    ...(parseClickhouseAddress(url).cluster && { insert_quorum: 'auto' }),
    // Rows that are read from the log again are to be stored again: what took them before may be lost.
    insert_deduplicate: 0,
  })
  return {
    ...readerOf(client, options.database, url),
    async command(statement, params = {}) {
      await orRefused(client.command({ query: statement, query_params: params }))
    },
    async insert({ table, columns, rows }) {
      const sent = client.exec({
        query: `INSERT INTO ${options.database}.${table} (${columns.join(', ')}) FORMAT JSONCompactEachRow`,
        values: Readable.from(chunksOf(rows), { objectMode: false }),
      })
      const { stream } = await orRefused(sent)
      for await (const _ of stream);
    },
  }
}

const ROWS_IN_A_CHUNK = 1_000

function* chunksOf(rows: readonly string[]): Generator<string> {
  for (let from = 0; from < rows.length; from += ROWS_IN_A_CHUNK)
    yield `${rows.slice(from, from + ROWS_IN_A_CHUNK).join('\n')}\n`
}

const ASK_LIMIT_MS = 5_000

/** Asks the server for nothing; throws what it answers, a `Refused` where trying again does not help. */
export async function askClickhouse(url: string): Promise<void> {
  const reader = openReader(url, { database: 'default', name: 'access', readLimitMs: ASK_LIMIT_MS })
  await reader.rows('SELECT 1').finally(() => reader.close())
}

function readerOf(client: ClickHouseClient, database: string, url: string): ClickhouseReader {
  return {
    database,
    cluster: parseClickhouseAddress(url).cluster,
    async rows<T>(query: string, params: Record<string, unknown> = {}, signal?: AbortSignal) {
      const sent = client.query({
        query,
        query_params: params,
        format: 'JSONEachRow',
        ...(signal && { abort_signal: signal }),
      })
      const answer = await orRefused(sent)
      return answer.json<T>()
    },
    async columns<T extends string, N extends string>({ texts, numbers, from }: Selection<T, N>, params = {}) {
      const names = [...Object.keys(texts), ...Object.keys(numbers)]
      const selected = [...Object.values(texts), ...Object.values(numbers).map(number => `toFloat64(${number})`)]
      const { stream, summary } = await orRefused(
        client.exec({
          query: `SELECT ${selected.join(', ')} ${from} FORMAT RowBinary`,
          query_params: params,
          // Bytes of rows cannot be told from an error behind them; so it comes in their place, and the number of rows before them.
          clickhouse_settings: { wait_end_of_query: 1 },
        }),
      )
      const columns = await decodeColumns(stream, {
        rows: Number(summary?.result_rows),
        texts: Object.keys(texts).length,
        numbers: Object.keys(numbers).length,
      })
      const all = [...columns.texts, ...columns.numbers]
      return Object.fromEntries(names.map((name, at) => [name, all[at]])) as Columns<T, N>
    },
    close: () => client.close(),
  }
}

function clientOf(
  url: string,
  options: ClickhouseOptions,
  limitMs: number,
  connections: number,
  settings: ClickHouseSettings,
): ClickHouseClient {
  const address = parseClickhouseAddress(url)
  const { origin, username, password } = address.url
  return createClient({
    url: origin,
    username: decodeURIComponent(username) || 'default',
    password: decodeURIComponent(password),
    application: options.name,
    request_timeout: limitMs,
    max_open_connections: connections,
    compression: { request: false, response: false },
    // What goes wrong is thrown to the caller, who logs it once.
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: settings,
    ...(address.isTls && { http_agent: openAgent(address, connections) }),
  })
}

/** Reads certificates at each connection: the agent's own function keeps those that it was made with. */
function openAgent({ url, tls }: ClickhouseAddress, connections: number): Agent {
  const host = url.hostname.replace(/^\[(.+)\]$/, '$1')
  const servername = isIP(host) ? {} : { servername: host }
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  agent.createConnection = (_, done) => {
    try {
      return connect({ host, port: Number(url.port || 443), ...servername, ...readTlsFiles(tls) })
    } catch (error) {
      done?.(error as Error, null as never)
      return undefined
    }
  }
  return agent
}

/** ClickHouse's numbers of UNKNOWN_TABLE and UNKNOWN_DATABASE. */
const MISSING = ['60', '81']

/** Whether a query failed since a table of it, or its database, is not there. */
export const isMissingTable = (error: unknown): boolean =>
  error instanceof ClickHouseError && MISSING.includes(error.code)

/** ClickHouse's number of AUTHENTICATION_FAILED. */
const CREDENTIALS = '516'

/** A refusal for good says so in one line, wherever it is met. */
async function orRefused<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof ClickHouseError && error.code === CREDENTIALS)
      throw new Refused(
        `ClickHouse refuses the credentials (${CREDENTIALS}); check user and password of CLICKHOUSE_URL`,
        {
          cause: error,
        },
      )
    throw refusedCertificate(error, 'ClickHouse', 'CLICKHOUSE_TLS') ?? error
  }
}
