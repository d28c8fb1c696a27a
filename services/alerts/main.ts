/**
 * The role `alerts`: rules from the outbox to the log, alerts.triggered back into the tables, webhooks and e-mails out.
 *
 * Consumer group `alerts`, whose positions are in Postgres beside the tables that they belong to. Jobs in Postgres alone lead
 * from an alert that has fired to its deliveries, so a process may end between the two, and any number may run.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { startAuditHousekeeping } from '#services/accounts/audit/commands.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { runDeliveries } from './delivery/run-deliveries.ts'
import { startRelay } from './rules/outbox-relay.ts'
import { CONSUMER, openTriggerApplier, readPosition } from './rules/trigger-applier.ts'

const STATEMENT_LIMIT_MS = 20_000
const FETCH_BYTES = 2 ** 17

/** Starts the role. */
export const start: StartRole = async context => {
  const { config, metrics } = context
  const log = context.log.child({ role: CONSUMER })
  const kafka = connectKafka({ config, role: CONSUMER, log })
  const database = openDatabase(databaseUrl(config.servers.postgres, databaseName(config.namespace)), {
    name: CONSUMER,
    log,
    connections: 16,
    statementLimitMs: STATEMENT_LIMIT_MS,
  })
  // First: mails and webhooks need no Kafka.
  const deliveries = await runDeliveries(context, database)
  const parts = { database, newId: openUuidSource(), now: Date.now }
  const running = await runSink(context, kafka, {
    group: CONSUMER,
    topics: ['alertsTriggered'],
    maxBytesPerPartition: FETCH_BYTES,
    async open({ partition }, { faultOf }) {
      const stored = await readPosition(database, partition)
      const fault = await faultOf(stored)
      // A repeat of a trigger does nothing.
      if (fault !== undefined) log.warn({ partition, fault }, 'the triggers are read again from the start of the log')
      return openTriggerApplier(parts, partition, { stored, position: fault === undefined ? stored : undefined })
    },
  })
  const relay = startRelay({ database, kafka, log, metrics })
  const auditHousekeeping = startAuditHousekeeping(database, log, Date.now)
  return {
    ...running,
    ready: async () => (await running.ready()) ?? relay.overdue() ?? deliveries.unavailable(),
    async stop() {
      await running.stop()
      await relay.stop()
      await auditHousekeeping.stop()
      await deliveries.stop()
      await database.close()
    },
  }
}
