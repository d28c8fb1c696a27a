/**
 * Brings servers into the shape that the roles expect: topics, schemas, tables, migrations, catalog.
 *
 * Runs before every start and changes nothing when all is in place. Invariant: every part may be run
 * again and be cut off anywhere; two processes that start together take turns. Must not
 * start anything and must not drop anything.
 */
import { registerSchemas } from '#infra/kafka/codec.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { setUpTopics } from '#infra/kafka/topic-admin.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { publishCatalog } from './publish-catalog.ts'

/** Sets the servers up; `onPart` hears what is being done. */
export async function setUp(
  config: PlatformConfig,
  log: Log,
  onPart: (part: string) => void = () => {},
): Promise<void> {
  const kafka = connectKafka({ config, role: 'setup', log })
  const parts: Record<string, () => Promise<unknown>> = {
    topics: () => setUpTopics(kafka),
    schemas: () => registerSchemas({ url: config.servers.schemaRegistry, namespace: config.namespace }),
    catalog: () => publishCatalog(kafka),
  }
  for (const [part, run] of Object.entries(parts)) {
    const startedAt = performance.now()
    onPart(part)
    const result = await run()
    log.info({ part, ms: Math.round(performance.now() - startedAt), result }, 'set up')
  }
}
