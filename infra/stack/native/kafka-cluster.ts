/**
 * Apache Kafka as three combined brokers and controllers on this machine, as a cluster in production is set up: replicated,
 * TLS and SCRAM for clients, and access by ACL.
 *
 * Writes <dataDir>/kafka-cluster. Clients come by SASL_SSL; the brokers among themselves, and administrators on this
 * machine, by a plain listener of loopback, whose nameless user may do anything. Invariant: ports, users and certificates are
 * planned once for a data directory and start, so that a broker which is started again finds the others where they are.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { KafkaAccess } from '#infra/runtime/config.ts'
import { provideCertificates } from '../certificates.ts'
import { replaceFile } from '../processes.ts'
import type { ClusterOptions } from '../running-servers.ts'
import { type BrokerProperties, prepareBroker, replication } from './kafka.ts'
import type { NativeContext, PrepareServer } from './native-server.ts'

/** Brokers of a cluster. */
const CLUSTER_SIZE = 3
const MIN_IN_SYNC = 2
/** Who may do anything. */
const ADMINISTRATOR = 'marketlog'

interface Node {
  id: number
  client: number
  internal: number
  controller: number
}

/** How each broker of the cluster is prepared, by the name of its process. */
export async function planCluster(
  context: NativeContext,
  options: ClusterOptions,
): Promise<Map<`kafka-${number}`, PrepareServer>> {
  if (existsSync(join(context.dataDir, 'kafka')))
    throw new Error(
      `${context.dataDir} holds the log of a single broker; \`make clean\` removes it, CLUSTER=1 keeps it`,
    )
  const home = join(context.dataDir, 'kafka-cluster')
  const nodes: Node[] = []
  for (let id = 1; id <= CLUSTER_SIZE; id++) {
    const port = (purpose = '') => context.port(`kafka-${id}${purpose}`)
    nodes.push({ id, client: await port(), internal: await port('-internal'), controller: await port('-controller') })
  }
  const certificates = await provideCertificates(context, join(home, 'tls'))
  const users = { [ADMINISTRATOR]: context.secret('kafka'), ...options.users }
  const passwordFile = join(home, 'password')
  replaceFile(passwordFile, users[ADMINISTRATOR] as string, 0o600)
  const access: KafkaAccess = { ca: certificates.ca, sasl: 'scram-sha-512', user: ADMINISTRATOR, passwordFile }
  const advertised = ({ id, client }: Node): number => options.advertisedPorts?.[id - 1] ?? client
  const brokers = nodes.map(node => `127.0.0.1:${advertised(node)}`)
  const shared = { ...sharedProperties(nodes), ...securityOf(certificates, users) }
  const clusterId = clusterIdOf(context.secret('kafka-cluster'))
  return new Map(
    nodes.map(node => {
      const plan = {
        home: join(home, String(node.id)),
        clusterId,
        formatArguments: scramUsers(users),
        probePort: node.internal,
        properties: { ...shared, ...listenersOf(node, advertised(node)) },
      }
      const prepare: PrepareServer = async own => ({
        ...(await prepareBroker(own, plan)),
        addresses: { kafka: brokers, kafkaAccess: access },
      })
      return [`kafka-${node.id}`, prepare]
    }),
  )
}

/** Sixteen bytes in the form of Kafka's own ids; a leading dash would be read as an option. */
function clusterIdOf(secret: string): string {
  const id = createHash('sha256').update(secret).digest().subarray(0, 16)
  id[0] = (id[0] as number) & 0x7f
  return id.toString('base64url')
}

const listenersOf = ({ id, client, internal, controller }: Node, advertised: number): BrokerProperties => ({
  'node.id': id,
  listeners: `CLIENT://127.0.0.1:${client},INTERNAL://127.0.0.1:${internal},CONTROLLER://127.0.0.1:${controller}`,
  'advertised.listeners': `CLIENT://127.0.0.1:${advertised},INTERNAL://127.0.0.1:${internal}`,
})

const sharedProperties = (nodes: readonly Node[]): BrokerProperties => ({
  'controller.quorum.voters': nodes.map(({ id, controller }) => `${id}@127.0.0.1:${controller}`).join(','),
  'listener.security.protocol.map': 'CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT',
  'inter.broker.listener.name': 'INTERNAL',
  'default.replication.factor': CLUSTER_SIZE,
  'min.insync.replicas': MIN_IN_SYNC,
  // A frozen follower is left out, and one that has come back made leader again, soon enough to be watched.
  'replica.lag.time.max.ms': 5_000,
  'leader.imbalance.check.interval.seconds': 10,
  ...replication(CLUSTER_SIZE, MIN_IN_SYNC),
})

const MECHANISMS = ['SCRAM-SHA-256', 'SCRAM-SHA-512']

function securityOf(
  { ca, keyStore }: { ca: string; keyStore: string },
  users: Record<string, string>,
): BrokerProperties {
  const client = 'listener.name.client'
  const logins = Object.entries(users).map(([user, password]) => `user_${user}="${password}"`)
  return {
    [`${client}.ssl.keystore.type`]: 'PEM',
    [`${client}.ssl.keystore.location`]: keyStore,
    [`${client}.ssl.truststore.type`]: 'PEM',
    [`${client}.ssl.truststore.location`]: ca,
    [`${client}.ssl.client.auth`]: 'requested',
    [`${client}.sasl.enabled.mechanisms`]: [...MECHANISMS, 'PLAIN'].join(','),
    [`${client}.plain.sasl.jaas.config`]: `org.apache.kafka.common.security.plain.PlainLoginModule required ${logins.join(' ')};`,
    ...Object.fromEntries(
      MECHANISMS.map(name => [
        `${client}.${name.toLowerCase()}.sasl.jaas.config`,
        'org.apache.kafka.common.security.scram.ScramLoginModule required;',
      ]),
    ),
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': `User:ANONYMOUS;User:${ADMINISTRATOR}`,
  }
}

const scramUsers = (users: Record<string, string>): string[] =>
  Object.entries(users).flatMap(([name, password]) =>
    MECHANISMS.flatMap(mechanism => ['--add-scram', `${mechanism}=[name=${name},password=${password}]`]),
  )

/** How many brokers are to be started: one unless CLUSTER names more. */
export function brokerCount(environment: Record<string, string | undefined>): number {
  const wanted = environment.CLUSTER || '1'
  if (wanted !== '1' && wanted !== String(CLUSTER_SIZE))
    throw new Error(`CLUSTER must be 1 or ${CLUSTER_SIZE}, not ${wanted}`)
  return Number(wanted)
}
