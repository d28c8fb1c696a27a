/**
 * Own progress: cli-progress repeats its last line in a pipe, prints no note above its line and loses the cursor when it scrolls.
 *
 * On standard error: one updating line on a terminal; in a pipe a line of a step every five seconds, so that short steps print
 * nothing and logs stay readable.
 */

export interface ProgressStream {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

export type Progress = ReturnType<typeof openProgress>

export type Steps = Pick<Progress, 'step' | 'note'>

const REDRAW_MS = 250
const REPEAT_MS = 5_000
const LONG_AFTER_S = 2
const CLEAR_LINE = '\r\x1b[K'

export function openProgress(stream: ProgressStream) {
  const { isTTY = false } = stream
  let current: string | undefined
  let startedAt = 0
  let timer: NodeJS.Timeout | undefined
  const show = () => {
    const seconds = Math.floor((performance.now() - startedAt) / 1000)
    const line = seconds < LONG_AFTER_S ? `${current}` : `${current} (${seconds} s)`
    stream.write(isTTY ? `${CLEAR_LINE}${line.slice(0, (stream.columns || 80) - 1)}` : `${line}\n`)
  }
  const clear = () => {
    if (isTTY && current !== undefined) stream.write(CLEAR_LINE)
  }
  return {
    /** Begins a step, which ends the one before, or updates the running one when its details alone change. */
    step(text: string): void {
      const isSame = current !== undefined && headOf(current) === headOf(text)
      current = text
      if (!isSame) {
        startedAt = performance.now()
        clearInterval(timer)
        timer = setInterval(show, isTTY ? REDRAW_MS : REPEAT_MS)
      }
      if (isTTY) show()
    },
    /** A line that stays. */
    note(line: string): void {
      clear()
      stream.write(`${line}\n`)
      if (isTTY && current !== undefined) show()
    },
    stop(): void {
      clear()
      clearInterval(timer)
      current = undefined
    },
  }
}

export async function withProgress<T>(work: (progress: Progress) => Promise<T>): Promise<T> {
  const progress = openProgress(process.stderr)
  try {
    return await work(progress)
  } finally {
    progress.stop()
  }
}

/** A step is the text before its first colon; what follows are its details. */
const headOf = (text: string): string => text.split(':', 1)[0] ?? text
