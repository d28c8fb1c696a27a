/**
 * `marketlog upgrade plan`: what a start of this version would change of the servers' shape, and what it would refuse.
 *
 * Changes nothing: the decisions are those of the set-up step (set-up.ts), which carries them out. Writes a table on a terminal
 * and JSON lines in a pipe. Exit code 0: nothing; 1: a start would change something; 65: it would refuse to start.
 */
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { planTables } from '#infra/clickhouse/set-up-tables.ts'
import { catalogVersion } from '#infra/config/catalog.ts'
import { unregisteredSchemas } from '#infra/kafka/codec.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { UnfitCluster } from '#infra/kafka/refusal.ts'
import { planTopics } from '#infra/kafka/topic-admin.ts'
import { pendingMigrations } from '#infra/postgres/migrate.ts'
import { databaseUrl } from '#infra/postgres/pool.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { changelogRefusal } from '#streams/book/main.ts'
import type { StoredForm } from '#streams/runner/view.ts'
import { TABLES, VIEWS } from '#streams/views.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { type Output, write, writeJson } from './log-tools/output.ts'
import { openProgress } from './progress.ts'
import { decideCatalog, type PublishedCatalog, publishedCatalog } from './set-up.ts'
import { tableText, wantsTable } from './table.ts'

/** One thing that a start does. `leave` is said where a newer version's work stays; it changes nothing. */
export interface PlannedStep {
  part: 'migrations' | 'topics' | 'schemas' | 'tables' | 'catalog' | 'formats' | 'changelog'
  does: 'create' | 'change' | 'rebuild' | 'leave' | 'refuse'
  name: string
  detail: string
}

const COLUMNS = [{ head: 'part' }, { head: 'does' }, { head: 'name' }, { head: 'detail' }]

/** Prints the plan; throws when a start would change or refuse something. */
export async function showUpgradePlan(
  config: PlatformConfig,
  log: Log,
  output: Output,
  options: { json?: boolean },
): Promise<void> {
  const progress = openProgress(process.stderr)
  progress.step('comparing the servers with this version')
  const steps = await planUpgrade(config, log).finally(() => progress.stop())
  if (!wantsTable(output, options)) for (const step of steps) await writeJson(output, step)
  else if (steps.length > 0) {
    const rows = steps.map(({ part, does, name, detail }) => [part, does, name, detail])
    await write(output, tableText(output, COLUMNS, rows))
  }
  const refusal = steps.find(({ does }) => does === 'refuse')
  if (refusal) throw new CommandFailure(`a start would be refused: ${refusal.detail}`, exitCodes.badInput)
  const changes = steps.filter(({ does }) => does !== 'leave').length
  if (changes > 0) throw new CommandFailure(`a start would change ${changes} things`, exitCodes.failed)
}

/** Everything that a start would change or refuse, in the order of the set-up step. */
export async function planUpgrade(config: PlatformConfig, log: Log): Promise<PlannedStep[]> {
  const kafka = connectKafka({ config, role: 'setup', log })
  const registry = { url: config.servers.schemaRegistry, settings: config.registry }
  const missing = await pendingMigrations(databaseUrl(config.servers.postgres, databaseName(config.namespace)))
  const topics = await topicSteps(kafka)
  const schemas = await unregisteredSchemas({ registry, namespace: config.namespace })
  const hasLog = !topics.some(({ does, name }) => does === 'create' && LOGS.some(key => name === kafka.topicName(key)))
  return [
    ...missing.map((name): PlannedStep => ({ part: 'migrations', does: 'change', name, detail: 'is run' })),
    ...topics,
    ...schemas.map(({ name, version }): PlannedStep => {
      return { part: 'schemas', does: 'create', name, detail: `version ${version} is registered` }
    }),
    ...(await tableSteps(config)),
    ...catalogSteps(catalogVersion(), hasLog ? await publishedCatalog(kafka) : { newest: undefined, isLast: false }),
    ...(hasLog ? await changelogSteps(kafka) : []),
    ...(await storedFormats(config, log)).flatMap(formatSteps),
  ]
}

/** Topics that are read for the plan. */
const LOGS = ['catalog', 'book'] as const

async function topicSteps(kafka: KafkaConnection): Promise<PlannedStep[]> {
  try {
    const { missing, changes } = await planTopics(kafka)
    return [
      ...missing.map(({ topic, numPartitions }): PlannedStep => {
        return { part: 'topics', does: 'create', name: topic, detail: `${numPartitions} partitions` }
      }),
      ...[...changes].map(([name, settings]): PlannedStep => {
        const detail = Object.entries(settings).map(([setting, value]) => `${setting}=${value}`)
        return { part: 'topics', does: 'change', name, detail: detail.join(' ') }
      }),
    ]
  } catch (error) {
    if (!(error instanceof UnfitCluster)) throw error
    return [{ part: 'topics', does: 'refuse', name: 'Kafka', detail: error.message }]
  }
}

async function tableSteps(config: PlatformConfig): Promise<PlannedStep[]> {
  const database = databaseName(config.namespace)
  const reader = openReader(config.servers.clickhouse, { database, name: 'upgrade plan' })
  try {
    return (await planTables(reader, TABLES)).map((change): PlannedStep => {
      const { table: name } = change
      if ('fault' in change) return { part: 'tables', does: 'refuse', name, detail: change.fault }
      const does = change.statement.startsWith('CREATE') ? 'create' : 'change'
      return { part: 'tables', does, name, detail: change.statement.replaceAll(/\s+/g, ' ') }
    })
  } finally {
    await reader.close()
  }
}

/** What a start does about the catalog. */
export function catalogSteps(own: string, published: PublishedCatalog): PlannedStep[] {
  const decision = decideCatalog(own, published)
  if (decision === 'in place') return []
  const detail = `the log has ${published.newest ?? 'none'}, this version ${own}`
  return [{ part: 'catalog', does: decision === 'left' ? 'leave' : 'change', name: 'catalog.items', detail }]
}

async function changelogSteps(kafka: KafkaConnection): Promise<PlannedStep[]> {
  const reader = await openRangeReader(kafka, [kafka.topicName('book')])
  try {
    const detail = await changelogRefusal({ kafka, reader })
    return detail === undefined ? [] : [{ part: 'changelog', does: 'refuse', name: kafka.topicName('book'), detail }]
  } finally {
    await reader.close()
  }
}

async function storedFormats(config: PlatformConfig, log: Log): Promise<StoredForm[]> {
  const { namespace } = config
  const redis = await openRedis(config, { name: `${namespace}upgrade`, log })
  try {
    const forms = VIEWS.map(view => view.forms?.(redis, namespace) ?? [])
    return (await Promise.all(forms)).flat()
  } finally {
    await closeRedis(redis)
  }
}

/** What a start does about a stored form. */
export function formatSteps({ name, format, own }: StoredForm): PlannedStep[] {
  if (format === undefined || format === own) return []
  const detail = `is in version ${format} of its form and built again in version ${own}`
  return [{ part: 'formats', does: 'rebuild', name, detail }]
}
