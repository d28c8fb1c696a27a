/** The contract between native-start.ts and the files beside this one. */
import type { ServerAddresses } from '#infra/runtime/config.ts'
import type { LaunchOrder } from '../launch.ts'
import type { PortBook } from '../ports.ts'
import type { SecretBook } from '../secrets.ts'

export interface ToolContext {
  cacheDir: string
  environment: Record<string, string | undefined>
  say: (line: string) => void
  signal: AbortSignal
  /** Output of one-shot tools; without it a failure carries the end of it. */
  logFile?: string
}

export interface NativeContext extends ToolContext {
  dataDir: string
  port: PortBook
  secret: SecretBook
  /** Output of one-shot tools and of the server itself. */
  logFile: string
}

export interface PreparedServer {
  launch: Pick<LaunchOrder, 'command' | 'args' | 'uid' | 'gid' | 'directory'> &
    Partial<Pick<LaunchOrder, 'environment' | 'stopSignal' | 'graceMs'>>
  isReady: () => Promise<boolean>
  /** Set-up that needs the running server; may be run again on every start. */
  afterReady?: () => Promise<void>
  addresses: Partial<ServerAddresses>
}

/** Downloads, installs and configures one server; starts nothing. */
export type PrepareServer = (context: NativeContext) => Promise<PreparedServer>
