/**
 * A role's connection to Kafka: brokers, names within a namespace, and the codec of the schema registry.
 *
 * Opens nothing by itself but the registry's lookups; clients come from `newClient`, one instance for
 * each transactional producer, because kafkajs instances share an offset cache that must not be
 * shared across partitions.
 */
import { connect as connectPlain, isIP } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { KafkaConfig } from 'kafkajs'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import type { PlatformConfig } from '../runtime/config.ts'
import type { KafkaSettings } from '../runtime/kafka-settings.ts'
import type { Log } from '../runtime/log.ts'
import { readTlsFiles } from '../runtime/tls-files.ts'
import { CompressionCodecs, CompressionTypes, Kafka, logLevel } from './client/kafkajs.ts'
import { openCodec } from './codec.ts'

export type KafkaConnection = ReturnType<typeof connectKafka>

/**
 * How long a role retries while brokers are away before it ends and its supervisor starts it again. The client's
 * own limit is nine seconds, less than a broker needs to start again.
 */
export const BROKER_RETRY_LIMIT_MS = 10 * MINUTE_MS

const LONGEST_PAUSE_MS = 2_000

/** {@link BROKER_RETRY_LIMIT_MS} as a retry policy of the client. */
export const BROKER_RETRY_POLICY = {
  initialRetryTime: 100,
  maxRetryTime: LONGEST_PAUSE_MS,
  retries: BROKER_RETRY_LIMIT_MS / LONGEST_PAUSE_MS,
}

/** Above it the event loop runs other work first. */
const LARGE_BYTES = 64 * 1024

/**
 * Node's own zstd: level 1 halves the log's bytes at a tenth of gzip's time.
 *
 * In this thread: a batch of some kilobytes takes 40 µs of CPU, and 230 by way of the thread pool, a megabyte 1 ms instead of
 * 8. With the pool it was a quarter of what live-view did at 5,000 changes a second.
 */
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  async compress({ buffer }: { buffer: Buffer }): Promise<Buffer> {
    if (buffer.length > LARGE_BYTES) await nextTurn()
    return zstdCompressSync(buffer, { params: { [constants.ZSTD_c_compressionLevel]: 1 } })
  },
  async decompress(buffer: Buffer): Promise<Buffer> {
    if (buffer.length > LARGE_BYTES) await nextTurn()
    return zstdDecompressSync(buffer)
  },
})

export function connectKafka({ config, role, log }: { config: PlatformConfig; role: string; log: Log }) {
  const brokers = config.servers.kafka
  return {
    namespace: config.namespace,
    role,
    brokers,
    log,
    stateDir: config.stateDir,
    settings: config.kafka,
    /** TLS and credentials of one client; nothing that reaches a broker goes without. */
    security: () => securityOf(config.kafka),
    codec: openCodec({
      registry: { url: config.servers.schemaRegistry, settings: config.registry },
      namespace: config.namespace,
    }),
    topicName: (key: TopicKey): string => `${config.namespace}${topics[key].name}`,
    groupName: (group: string): string => `${config.namespace}${group}`,
    /** `onLost` is called when a connection was refused or broke. */
    newClient: (id: string, overrides: Partial<KafkaConfig> = {}, onLost: (reason: string) => void = () => undefined) =>
      new Kafka({
        clientId: `${config.namespace}${role}-${id}`,
        brokers: [...brokers],
        ...securityOf(config.kafka),
        connectionTimeout: 3_000,
        requestTimeout: 30_000,
        logLevel: logLevel.WARN,
        logCreator:
          () =>
          ({ level, namespace: client, log: { message, error } }) => {
            if (client === 'Connection' && level === logLevel.ERROR) onLost(message)
            // The client retries by itself and reports each try as an error; only what it gives up on is ours to log as one.
            log.debug({ client, level, error }, `kafkajs: ${message}`)
          },
        ...overrides,
      }),
  }
}

/**
 * TLS and credentials of a client. Certificates and the password are read when a connection is opened: new files are in force from the
 * next connection on.
 */
type ClientSecurity = Pick<KafkaConfig, 'ssl' | 'sasl' | 'socketFactory'>

const KEEP_ALIVE_MS = 60_000

function securityOf({ tls, sasl }: Pick<KafkaSettings, 'tls' | 'sasl'>): ClientSecurity {
  const security: ClientSecurity = {
    socketFactory: ({ host, port, onConnect }) => {
      const socket =
        tls === undefined
          ? connectPlain({ host, port }, onConnect)
          : connectTls({ host, port, ...(isIP(host) ? {} : { servername: host }), ...readTlsFiles(tls) }, onConnect)
      return socket.setKeepAlive(true, KEEP_ALIVE_MS)
    },
  }
  if (tls !== undefined) security.ssl = true
  if (sasl !== undefined) {
    const { mechanism, user, password } = sasl
    security.sasl = {
      mechanism: mechanism as 'plain',
      username: user,
      get password() {
        return password()
      },
    }
  }
  return security
}
