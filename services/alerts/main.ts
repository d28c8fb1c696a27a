/**
 * The role `alerts`: rules from the outbox to the log, alerts.triggered back into the tables, webhooks and e-mails out.
 *
 * Consumer group `alerts`, whose positions are in Postgres beside the tables that they belong to. Jobs in Postgres alone lead
 * from an alert that has fired to its deliveries, so a process may end between the two, and any number may run. Workers form lanes that
 * never wait for one another - destinations, mails, and the rest - and a lost Postgres or mail server ends nothing but the attempt.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { openMailer } from '#infra/mail/mailer.ts'
import { openOutbound } from '#infra/outbound/post.ts'
import { type RunningJobs, removeGivenUpJobs, runJobs } from '#infra/postgres/jobs.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { cleanAuditLog } from '#services/accounts/audit/commands.ts'
import { openUnsubscribeLinks, SEND_MAIL } from '#services/accounts/reader.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { FAN_OUT, fanOut } from './delivery/fan-out.ts'
import { sendAlertMail, sendQueuedMail } from './delivery/send-mails.ts'
import { serveDestination } from './delivery/serve-destination.ts'
import { DELIVER, forgetOld, pickUpLeft, SEND_ALERT_MAIL } from './delivery/store.ts'
import { startRelay } from './rules/outbox-relay.ts'
import { CONSUMER, openTriggerApplier, readPosition } from './rules/trigger-applier.ts'

const STATEMENT_LIMIT_MS = 20_000
const FETCH_BYTES = 2 ** 17
/** A worker waits for answers most of its time; each one that is idle asks Postgres for jobs every two seconds. */
const WORKERS = { destinations: 48, mails: 3, rest: 4 }

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
  const deliveries = await runDeliveries(config, database, log)
  const running = await runSink(context, kafka, {
    group: CONSUMER,
    topics: ['alertsTriggered'],
    maxBytesPerPartition: FETCH_BYTES,
    async open({ partition }, { faultOf }) {
      const stored = await readPosition(database, partition)
      const fault = await faultOf(stored)
      // A repeat of a trigger does nothing.
      if (fault !== undefined) log.warn({ partition, fault }, 'the triggers are read again from the start of the log')
      const position = fault === undefined ? stored : undefined
      return openTriggerApplier(database, partition, { stored, position })
    },
  })
  const relay = startRelay({ database, kafka, log, metrics })
  return {
    ...running,
    ready: async () => (await running.ready()) ?? relay.overdue() ?? deliveries.unavailable(),
    async stop() {
      await running.stop()
      await relay.stop()
      await deliveries.stop()
      await database.close()
    },
  }
}

/** Runs the jobs of alert events, their deliveries, mails and housekeeping until stopped. */
async function runDeliveries(config: PlatformConfig, database: Database, log: Log): Promise<RunningJobs> {
  const { secretKey, baseUrl, servers } = config
  const { postgres, postgresDirect = postgres } = servers
  const url = databaseUrl(postgresDirect, databaseName(config.namespace))
  const mailer = openMailer({ smtpUrl: config.smtpUrl, from: config.mailFrom })
  const shared = { database, box: secretKey === undefined ? undefined : openSealedBox(secretKey) }
  const destinations = {
    ...shared,
    outbound: openOutbound({ allow: config.webhookAllow, ports: config.webhookPorts, dns: config.webhookDns }),
    limitMs: config.webhookLimitMs,
  }
  const mails = {
    ...shared,
    mailer,
    host: new URL(baseUrl).hostname,
    links: secretKey === undefined ? undefined : openUnsubscribeLinks(secretKey, baseUrl),
  }
  const jobs = await runJobs({
    url,
    name: CONSUMER,
    log,
    clocks: [
      { task: 'housekeeping', match: '17 * * * *' },
      { task: 'clean-audit-log', match: '47 * * * *' },
      { task: 'pick-up-deliveries', match: '*/5 * * * *' },
    ],
    lanes: [
      {
        concurrency: WORKERS.rest,
        tasks: {
          [FAN_OUT]: payload => fanOut(database, (payload as { event_ids: string[] }).event_ids),
          async housekeeping(_payload, signal) {
            await forgetOld(database, signal)
            await removeGivenUpJobs(url, log)
          },
          'clean-audit-log': () => cleanAuditLog(database, Date.now()),
          'pick-up-deliveries': async () => void (await pickUpLeft(database)),
        },
      },
      {
        concurrency: WORKERS.destinations,
        tasks: {
          [DELIVER]: (payload, signal) =>
            serveDestination(destinations, (payload as { endpoint_id: string }).endpoint_id, signal),
        },
      },
      {
        concurrency: WORKERS.mails,
        tasks: {
          [SEND_ALERT_MAIL]: payload => sendAlertMail(mails, (payload as { delivery_id: string }).delivery_id),
          [SEND_MAIL]: payload => sendQueuedMail(mails, payload),
        },
      },
    ],
  })
  // The clock does it too, so a Postgres that is away now only delays it.
  await pickUpLeft(database).catch(error => log.warn({ err: error }, 'what an earlier process left is picked up later'))
  return {
    unavailable: jobs.unavailable,
    async stop() {
      await jobs.stop()
      mailer.close()
    },
  }
}
