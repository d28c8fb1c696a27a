/**
 * Own progress: cli-progress repeats its last line in a pipe, prints no note above its line and loses the cursor when it scrolls.
 *
 * On standard error: one updating line on a terminal, plain lines in a pipe. A step that takes longer than two seconds is
 * shown, and on a pipe a short step prints nothing, so that logs stay readable.
 */

/** Where progress is written: a stream that may be a terminal. */
export interface ProgressStream {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

/** Shows one step after the other. */
export interface Progress {
  /** Begins a step, which ends the one before, or updates the running one when its details alone change. */
  step(text: string): void
  /** A line that stays. */
  note(line: string): void
  /** Ends the running step. */
  stop(): void
}

const FRAMES = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏'
const REDRAW_MS = 120
const QUIET_MS = 2_000
const REPEAT_MS = 5_000
const CLEAR_LINE = '\r\x1b[K'

/** Opens the progress of a command. */
export function openProgress(stream: ProgressStream): Progress {
  return stream.isTTY ? onTerminal(stream) : inPipe(stream)
}

function onTerminal(stream: ProgressStream): Progress {
  let text: string | undefined
  let startedAt = 0
  let frame = 0
  let timer: NodeJS.Timeout | undefined
  const draw = () => {
    if (text === undefined) return
    const seconds = Math.floor((performance.now() - startedAt) / 1000)
    const line = `${FRAMES[frame++ % FRAMES.length]} ${text}${seconds >= 2 ? ` (${seconds} s)` : ''}`
    stream.write(`${CLEAR_LINE}${line.slice(0, (stream.columns || 80) - 1)}`)
  }
  return {
    step(next) {
      if (text === undefined || headOf(text) !== headOf(next)) startedAt = performance.now()
      text = next
      timer ??= setInterval(draw, REDRAW_MS)
      draw()
    },
    note(line) {
      stream.write(`${timer === undefined ? '' : CLEAR_LINE}${line}\n`)
      draw()
    },
    stop() {
      if (timer === undefined) return
      clearInterval(timer)
      timer = undefined
      text = undefined
      stream.write(CLEAR_LINE)
    },
  }
}

function inPipe(stream: ProgressStream): Progress {
  let text: string | undefined
  let startedAt = 0
  let timer: NodeJS.Timeout | undefined
  const say = () => {
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    stream.write(`${text} (${seconds} s)\n`)
    timer = setTimeout(say, REPEAT_MS)
  }
  const stop = () => {
    clearTimeout(timer)
    text = undefined
  }
  return {
    step(next) {
      const goesOn = text !== undefined && headOf(text) === headOf(next)
      text = next
      if (goesOn) return
      clearTimeout(timer)
      startedAt = performance.now()
      timer = setTimeout(say, QUIET_MS)
    },
    note: line => void stream.write(`${line}\n`),
    stop,
  }
}

/** A step is the text before its first colon; what follows are its details. */
const headOf = (text: string): string => text.split(':', 1)[0] ?? text
