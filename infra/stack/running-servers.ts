import type { ServerAddresses } from '#infra/runtime/config.ts'

/** The five servers. */
export type ServerName = 'kafka' | 'schemaRegistry' | 'redis' | 'clickhouse' | 'postgres'

/** The provided servers and how to stop those that were started for it. */
export interface RunningServers extends StartedServers {
  addresses: ServerAddresses
  provided: Record<ServerName, 'address' | 'docker' | 'native'>
}

export interface ProvideOptions {
  dataDir: string
  environment: Record<string, string | undefined>
  say: (line: string) => void
  signal?: AbortSignal
}

/** All servers, in the order in which they are started. */
export const SERVER_NAMES: readonly ServerName[] = ['kafka', 'schemaRegistry', 'redis', 'clickhouse', 'postgres']

/** Servers that were started, where they answer, and how to stop them. */
export interface StartedServers {
  addresses: Partial<ServerAddresses>
  /** Processes of those that run natively, by name, as of now. */
  readonly pids: Readonly<Record<string, number>>
  /** Starts a server again that has ended by itself; rejects when it does not answer where it did. */
  restart(name: string): Promise<void>
  stop(): Promise<void>
}
