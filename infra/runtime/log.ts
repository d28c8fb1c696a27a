/**
 * The structured log: JSON lines on standard error, so that standard output stays a command's result.
 *
 * Writes to one file descriptor, synchronously, because a line about a crash must not die with the
 * process. Invariant: members that may hold a credential are cut here, for every caller.
 */
import { destination, type Logger, pino, stdSerializers, symbols } from 'pino'

export type Log = Logger

const LINES_BYTES = 4_096
const LINE_FLUSH_MS = 200

const SECRETS = ['authorization', 'key', 'secret', 'token', 'password', 'url', 'headers']

let lastAt = Number.NaN
let lastTime = ''

/** The member with the time; lines of one millisecond share its text. */
function timeMember(): string {
  const at = Date.now()
  if (at !== lastAt) lastTime = `,"time":"${new Date(at).toISOString()}"`
  lastAt = at
  return lastTime
}

const SHAPE = {
  formatters: { level: (label: string) => ({ level: label }) },
  timestamp: timeMember,
}

export function openLog(options: { level: string; name: string; descriptor?: number }): Log {
  return pino(
    {
      name: options.name,
      level: options.level,
      base: { pid: process.pid },
      ...SHAPE,
      serializers: { error: stdSerializers.err, err: stdSerializers.err },
      redact: { paths: SECRETS.flatMap(member => [member, `*.${member}`]), censor: '[cut]' },
    },
    destination({ dest: options.descriptor ?? 2, sync: true }),
  )
}

/**
 * Opens a log beside another, on the same descriptor, for lines of which there are very many: one write for 4 kB of them, or every
 * 200 ms, so that a crash loses the last. Members are not searched for credentials, so only lines whose members are fixed in the code
 * belong here.
 */
export function openLineLog(beside: Log): { log: Log; close(): void } {
  const { fd } = (beside as unknown as Record<symbol, { fd: number }>)[symbols.streamSym] as { fd: number }
  const file = destination({ dest: fd, sync: false, minLength: LINES_BYTES, periodicFlush: LINE_FLUSH_MS })
  const log = pino({ ...SHAPE, level: beside.level, base: beside.bindings() }, file)
  return { log, close: () => file.flushSync() }
}
