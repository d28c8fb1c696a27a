/** A failure that is shown to the user of a command in one line; codes follow sysexits where one fits. All else that is thrown is a bug. */

export const exitCodes = {
  failed: 1,
  usage: 64,
  badInput: 65,
  /** It does not answer, or refuses this client. */
  serverUnavailable: 69,
  bug: 70,
  cannotCreate: 73,
  /** Another process works on it: try again when that has ended. */
  inUse: 75,
  stoppedBySignal: 130,
} as const

export class CommandFailure extends Error {
  readonly exitCode: number
  constructor(message: string, exitCode: number = exitCodes.failed, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.exitCode = exitCode
  }
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const UNREACHABLE = new Set(['ECONNREFUSED', 'ECONNRESET', 'EHOSTUNREACH', 'ENOTFOUND', 'ETIMEDOUT'])

export function isUnreachable(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { code, name } = each as { code?: string; name: string }
    if (UNREACHABLE.has(code ?? '') || name === 'KafkaJSConnectionError') return true
  }
  return false
}
