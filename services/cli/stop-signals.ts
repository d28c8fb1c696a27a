/**
 * Turns SIGINT, SIGTERM and SIGHUP into an abort; a second one ends the process at once, which is safe: children and servers hold
 * a channel to this process and end when it closes.
 */
import { exitCodes } from './command-failure.ts'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Installs the handlers; the returned controller may also be aborted by other reasons to stop. */
export function listenForStop(onFirst: (signal: string) => void = () => {}): AbortController {
  const stop = new AbortController()
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(exitCodes.stoppedBySignal)
      stop.abort(new Error(`stopped by ${signal}`))
      onFirst(signal)
    })
  }
  return stop
}
