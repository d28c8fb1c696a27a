import type { ServerAddresses } from '#infra/runtime/config.ts'

/** The five servers. */
export type ServerName = 'kafka' | 'schemaRegistry' | 'redis' | 'clickhouse' | 'postgres'

/** A process that is run natively: a server, or one of several brokers. */
export type ProcessName = ServerName | `kafka-${number}`

/** What a cluster of several brokers may be given; each is left out in daily use. */
export interface ClusterOptions {
  /** Ports that brokers advertise to clients where a proxy is between, by broker. */
  advertisedPorts?: readonly number[]
  /** Users beside the administrator, with their passwords. */
  users?: Record<string, string>
}

/** PEM files that a server proves itself by, and the authority of its clients' certificates. */
export interface ServerTls {
  ca: string
  certificate: string
  key: string
}

/** The provided servers and how to stop those that were started for it. */
export interface RunningServers {
  addresses: ServerAddresses
  provided: Record<ServerName, 'address' | 'docker' | 'native'>
  /** Processes of those that run natively, as of now. */
  readonly pids: Partial<Record<ProcessName, number>>
  /** Starts a native server again that has ended by itself; rejects when it does not answer where it did. */
  restart(name: ProcessName): Promise<void>
  stop(): Promise<void>
}

/** What providing servers needs to know. */
export interface ProvideOptions {
  dataDir: string
  environment: Record<string, string | undefined>
  say: (line: string) => void
  signal?: AbortSignal
  cluster?: ClusterOptions
  /** Of the native Postgres; left out in daily use. */
  postgresTls?: ServerTls
}

/** All servers, in the order in which they are started. */
export const SERVER_NAMES: readonly ServerName[] = ['kafka', 'schemaRegistry', 'redis', 'clickhouse', 'postgres']

/** Servers that were started, where they answer, and how to stop them. */
export interface StartedServers {
  addresses: Partial<ServerAddresses>
  /** Those of now. */
  pids: Partial<Record<ProcessName, number>>
  /** Starts a server again that has ended by itself; rejects when it does not answer where it did. */
  restart(name: ProcessName): Promise<void>
  stop(): Promise<void>
}
