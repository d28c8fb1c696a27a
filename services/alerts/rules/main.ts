/**
 * The role `accounts`: alert rules from the outbox to the log, alerts.triggered back into the tables, and housekeeping.
 *
 * Consumer group `accounts`, whose positions are in Postgres beside the tables that they belong to. The role keeps the name
 * under which it was first run: consumer groups, ACLs and metrics go by it. The role `delivery` (delivery/main.ts) is the
 * other process of this service, which only jobs in Postgres connect with this one, so either runs without the other.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { startAuditHousekeeping } from '#services/accounts/audit/commands.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { startRelay } from './outbox-relay.ts'
import { CONSUMER, openTriggerApplier, readPosition } from './trigger-applier.ts'

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
    connections: 12,
    statementLimitMs: STATEMENT_LIMIT_MS,
  })
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
    ready: async () => (await running.ready()) ?? relay.overdue(),
    async stop() {
      await running.stop()
      await relay.stop()
      await auditHousekeeping.stop()
      await database.close()
    },
  }
}
