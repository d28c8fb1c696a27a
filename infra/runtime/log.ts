/**
 * The structured log: JSON lines on standard error, so that standard output stays a command's result.
 *
 * Writes to one file descriptor, synchronously, because a line about a crash must not die with the
 * process. Invariant: members that may hold a credential are cut here, whoever logs them.
 */
import { destination, type Logger, pino, stdSerializers } from 'pino'

/** A structured logger; children carry their role. */
export type Log = Logger

const SECRETS = ['authorization', 'key', 'secret', 'token', 'password', 'url', 'headers']

/** Opens the log of a process. */
export function openLog(options: { level: string; name: string; descriptor?: number }): Log {
  return pino(
    {
      name: options.name,
      level: options.level,
      base: { pid: process.pid },
      formatters: { level: label => ({ level: label }) },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      serializers: { error: stdSerializers.err, err: stdSerializers.err },
      redact: { paths: SECRETS.flatMap(member => [member, `*.${member}`]), censor: '[cut]' },
    },
    destination({ dest: options.descriptor ?? 2, sync: true }),
  )
}
