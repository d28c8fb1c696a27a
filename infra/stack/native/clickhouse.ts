/**
 * ClickHouse: the server's engine and HTTP interface out of the npm package chdb, in a process of its own.
 *
 * Writes <dataDir>/clickhouse. Invariant: three users - `default`, which can do nothing but keep the engine up, `marketlog`,
 * which writes, and `marketlog_reader`, which reads the databases marketlog* and nothing else. Passwords live in
 * the secrets file; users.xml holds their hashes.
 */
import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { replaceFile } from '../processes.ts'
import { askClickhouse } from '../readiness.ts'
import type { PrepareServer } from './native-server.ts'

const ENGINE = fileURLToPath(new URL('../clickhouse-engine.ts', import.meta.url))
const WRITER = 'marketlog'
const READER = 'marketlog_reader'
const DATABASE = 'marketlog'
const MEMORY_LIMIT_BYTES = 3 * 1024 ** 3

export const prepareClickhouse: PrepareServer = async context => {
  const home = join(context.dataDir, 'clickhouse')
  mkdirSync(join(home, 'store'), { recursive: true })
  const [writerPassword, readerPassword] = [context.secret('clickhouse'), context.secret('clickhouse-reader')]
  const [config, users, data] = [join(home, 'config.xml'), join(home, 'users.xml'), join(home, 'store')]
  replaceFile(users, usersXml(sha256(writerPassword), sha256(readerPassword)), 0o600)
  const port = await context.port('clickhouse')
  replaceFile(config, configXml(users, data))
  const ask = (statement: string) => askClickhouse(port, WRITER, writerPassword, statement)
  return {
    launch: {
      command: process.execPath,
      args: [ENGINE, data, String(port), config],
      environment: { CLICKHOUSE_ENGINE_USER: WRITER, CLICKHOUSE_ENGINE_PASSWORD: writerPassword },
      directory: home,
    },
    // The server that answers on the port must have this very data.
    isReady: async () => {
      const path = await ask("SELECT value FROM system.server_settings WHERE name = 'path'")
      return path?.trim().replace(/\/$/, '') === data
    },
    afterReady: async () => {
      const created = await ask(`CREATE DATABASE IF NOT EXISTS ${DATABASE}`)
      if (created === undefined) throw new Error(`the database ${DATABASE} could not be created`)
    },
    addresses: {
      clickhouse: `http://${WRITER}:${writerPassword}@127.0.0.1:${port}/${DATABASE}`,
      clickhouseReadOnly: `http://${READER}:${readerPassword}@127.0.0.1:${port}/${DATABASE}`,
    },
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function configXml(users: string, data: string): string {
  return `<clickhouse>
  <path>${escapeXml(data)}</path>
  <users_config>${escapeXml(users)}</users_config>
  <max_server_memory_usage>${MEMORY_LIMIT_BYTES}</max_server_memory_usage>
  <background_pool_size>4</background_pool_size>
  <background_schedule_pool_size>8</background_schedule_pool_size>
  <mark_cache_size>268435456</mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
</clickhouse>
`
}

/**
 * The engine's own session is always `default` without a password, and others on loopback can be that user too:
 * hence it may switch the listener and count, and nothing else - no data, no files, no URLs.
 */
function usersXml(writerHash: string, readerHash: string): string {
  return `<clickhouse>
  <profiles>
    <default/>
    <writer>
      <deduplicate_blocks_in_dependent_materialized_views>1</deduplicate_blocks_in_dependent_materialized_views>
      <cancel_http_readonly_queries_on_client_close>1</cancel_http_readonly_queries_on_client_close>
    </writer>
    <reader>
      <readonly>2</readonly>
      <cancel_http_readonly_queries_on_client_close>1</cancel_http_readonly_queries_on_client_close>
    </reader>
  </profiles>
  <quotas><default/></quotas>
  <users>
    <default>
      <password></password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile><quota>default</quota>
      <grants><query>GRANT SYSTEM LISTEN ON *.*</query><query>GRANT SELECT ON system.numbers</query></grants>
    </default>
    <${WRITER}>
      <password_sha256_hex>${writerHash}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>writer</profile><quota>default</quota>
    </${WRITER}>
    <${READER}>
      <password_sha256_hex>${readerHash}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>reader</profile><quota>default</quota>
      <grants><query>GRANT SELECT ON ${DATABASE}*.*</query></grants>
    </${READER}>
  </users>
</clickhouse>
`
}
