/**
 * The role `accounts`: the outbox to the log, alerts.triggered to the accounts' own tables, and housekeeping.
 *
 * Consumer group `accounts`, whose positions are in Postgres beside the tables that they belong to. The other files of this
 * folder are the write sides that the API calls; they need no process of their own.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { startHousekeeping } from './housekeeping.ts'
import { startRelay } from './outbox-relay.ts'
import { CONSUMER, openTriggerApplier, readPosition } from './trigger-applier.ts'

const STATEMENT_LIMIT_MS = 20_000
const FETCH_BYTES = 2 ** 17

/** Starts the role. */
export const start: StartRole = async context => {
  const { config, metrics } = context
  const log = context.log.child({ role: CONSUMER })
  const kafka = connectKafka({ config, role: CONSUMER, log })
  const topic = kafka.topicName('alertsTriggered')
  const database = openDatabase(databaseUrl(config.servers.postgres, databaseName(config.namespace)), {
    ...{ name: CONSUMER, log, connections: 12, statementLimitMs: STATEMENT_LIMIT_MS },
  })
  const reader = await openRangeReader(kafka, [topic])
  const parts = { database, newId: openUuidSource(), now: Date.now }
  const running = await runSink(context, kafka, {
    group: CONSUMER,
    topics: ['alertsTriggered'],
    maxBytesPerPartition: FETCH_BYTES,
    async open(_topic, partition) {
      const stored = await readPosition(database, partition)
      const position = await positionInLog(reader, topic, partition, stored)
      if (stored !== undefined && position !== stored) {
        log.warn({ partition, stored, position }, 'the log does not hold the stored position; it is read again')
      }
      return openTriggerApplier(parts, partition, { stored, position })
    },
  })
  const relay = startRelay({ database, kafka, log, metrics })
  const housekeeping = startHousekeeping(database, log, Date.now)
  return {
    ...running,
    async stop() {
      await running.stop()
      await relay.stop()
      await housekeeping.stop()
      await reader.close()
      await database.close()
    },
  }
}

/** The stored position where the log holds it; else the log's start, since a repeat of a trigger does nothing. */
async function positionInLog(
  reader: RangeReader,
  topic: string,
  partition: number,
  stored: number | undefined,
): Promise<number> {
  const start = await reader.start(topic, partition)
  const end = await reader.end(topic, partition)
  return stored !== undefined && stored >= start && stored <= end ? stored : start
}
