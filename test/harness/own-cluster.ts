/**
 * Three brokers of a test file's own, each behind a proxy that harms its network, as a cluster in production is set up: replicated, TLS and
 * SCRAM for clients, access by ACL. Clients come by SASL_SSL through the proxies, whose ports the brokers advertise; the brokers among
 * themselves, and what judges a test, by plain listeners, which no proxy harms and whose nameless user may do anything.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { type BrokerProperties, prepareBroker, replication } from '#infra/stack/native/kafka.ts'
import type { PrepareServer } from '#infra/stack/native/native-server.ts'
import type { NativeServers } from '#infra/stack/native-start.ts'
import { startNative } from '#infra/stack/native-start.ts'
import { openPortBook } from '#infra/stack/ports.ts'
import { identify, replaceFile } from '#infra/stack/processes.ts'
import { openSecretBook } from '#infra/stack/secrets.ts'
import { removeServerData } from '#infra/stack/servers.ts'
import { type Certificates, provideCertificates } from './certificates.ts'
import { controlProcess, type OwnProcess } from './own-server.ts'
import { openWireProxy, type WireProxy } from './wire-proxy.ts'

export type OwnBroker = ReturnType<typeof brokerOf>
export type OwnCluster = Awaited<ReturnType<typeof openOwnCluster>>

const IDS = [1, 2, 3]
const MIN_IN_SYNC = 2
const ADMINISTRATOR = 'marketlog'

/** Starts a cluster; `users` come beside the administrator, without any right. */
export async function openOwnCluster(options: { users?: Record<string, string> } = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-own-cluster-'))
  for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part))
  const proxies = await Promise.all(IDS.map(openWireProxy))
  const context = {
    environment: { ...process.env, KAFKA_JVM_PERFORMANCE_OPTS: FIRST_COMPILER_ONLY },
    say: () => undefined,
    signal: new AbortController().signal,
  }
  let started: NativeServers | undefined
  const close = async (): Promise<void> => {
    for (const id of IDS) controlOf(started, id).thaw()
    await started?.stop()
    await Promise.all(proxies.map(proxy => proxy.close()))
    await removeServerData(dataDir)
  }
  try {
    const tlsDir = join(dataDir, 'tls')
    const certificates = await provideCertificates({ ...context, cacheDir: cacheDirectory(process.env) }, tlsDir)
    const [secret, port] = [openSecretBook(dataDir), openPortBook(dataDir)]
    const password = secret('kafka')
    const passwordFile = join(dataDir, 'password')
    replaceFile(passwordFile, password, 0o600)
    const nodes: Node[] = []
    for (const [index, proxy] of proxies.entries()) {
      const id = index + 1
      const [client, internal] = [await port(nameOf(id)), await port(`${nameOf(id)}-internal`)]
      proxy.forwardTo(client)
      nodes.push({ id, client, internal, controller: await port(`${nameOf(id)}-controller`), advertised: proxy.port })
    }
    const users = { [ADMINISTRATOR]: password, ...options.users }
    const shared = { ...sharedProperties(nodes), ...securityOf(certificates, users) }
    const clusterId = clusterIdOf(secret('kafka-cluster'))
    const prepare =
      (node: Node): PrepareServer =>
      async own => ({
        ...(await prepareBroker(own, {
          home: join(dataDir, nameOf(node.id)),
          clusterId,
          formatArguments: scramUsers(users),
          probePort: node.internal,
          properties: { ...shared, ...listenersOf(node) },
        })),
        addresses: {},
      })
    const servers = Object.fromEntries(nodes.map(node => [nameOf(node.id), prepare(node)]))
    const running = await startNative({ ...context, dataDir }, servers)
    started = running
    return {
      brokers: proxies.map((proxy, index) => brokerOf(running, index + 1, proxy)),
      /** Of the proxies, for clients. */
      addresses: proxies.map(proxy => `127.0.0.1:${proxy.port}`),
      /** The administrator's, as settings of a role. */
      access: {
        KAFKA_TLS_CA: certificates.ca,
        KAFKA_SASL: 'scram-sha-512',
        KAFKA_USER: ADMINISTRATOR,
        KAFKA_PASSWORD_FILE: passwordFile,
      },
      /** Of the plain listeners: no proxy, no credentials, every right. */
      plain: nodes.map(({ internal }) => `127.0.0.1:${internal}`),
      /** Folder with the authority that may sign further certificates. */
      tlsDir,
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

const nameOf = (id: number) => `kafka-${id}` as const

const controlOf = (started: NativeServers | undefined, id: number): OwnProcess =>
  controlProcess(nameOf(id), () => identify(started?.pids[nameOf(id)] ?? 0))

function brokerOf(started: NativeServers, id: number, network: WireProxy) {
  const { terminate, end, ...control } = controlOf(started, id)
  return {
    ...control,
    id,
    /** The proxy between it and its clients. */
    network,
    /** Controlled: leaders move away before it ends. */
    stop: terminate,
    start: () => started.restart(nameOf(id)),
  }
}

interface Node {
  id: number
  client: number
  internal: number
  controller: number
  /** Of its proxy. */
  advertised: number
}

/** Sixteen bytes in the form of Kafka's own ids; a leading dash would be read as an option. */
function clusterIdOf(secret: string): string {
  const id = createHash('sha256').update(secret).digest().subarray(0, 16)
  id[0] = (id[0] as number) & 0x7f
  return id.toString('base64url')
}

const listenersOf = ({ id, client, internal, controller, advertised }: Node): BrokerProperties => ({
  'node.id': id,
  listeners: `CLIENT://127.0.0.1:${client},INTERNAL://127.0.0.1:${internal},CONTROLLER://127.0.0.1:${controller}`,
  'advertised.listeners': `CLIENT://127.0.0.1:${advertised},INTERNAL://127.0.0.1:${internal}`,
})

const sharedProperties = (nodes: readonly Node[]): BrokerProperties => ({
  'controller.quorum.voters': nodes.map(({ id, controller }) => `${id}@127.0.0.1:${controller}`).join(','),
  'listener.security.protocol.map': 'CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT',
  'inter.broker.listener.name': 'INTERNAL',
  'default.replication.factor': IDS.length,
  'min.insync.replicas': MIN_IN_SYNC,
  // A frozen follower is left out, and the preferred replica made leader, soon enough to be watched.
  'replica.lag.time.max.ms': 5_000,
  'leader.imbalance.check.interval.seconds': 1,
  ...replication(IDS.length, MIN_IN_SYNC),
})

const MECHANISMS = ['SCRAM-SHA-256', 'SCRAM-SHA-512']

function securityOf({ ca, keyStore }: Certificates, users: Record<string, string>): BrokerProperties {
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
