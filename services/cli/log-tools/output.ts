/**
 * Results as lines on standard output, at the pace of their reader.
 *
 * Nothing is buffered beyond the stream's own buffer, and a reader that has left (`| head`) ends the command quietly.
 */
import { once } from 'node:events'
import type { TableStream } from '../table.ts'

/** A stream of results. */
export type Output = NodeJS.WritableStream & TableStream

/** Writes and waits while the reader is slow. */
export async function write(output: Output, text: string | Buffer): Promise<void> {
  if (!output.write(text)) await once(output, 'drain')
}

/** Writes a result as a JSON line. */
export const writeJson = (output: Output, line: object): Promise<void> => write(output, `${JSON.stringify(line)}\n`)

/** Ends the process without an error when the reader of its output has left. */
export function endWithReader(output: NodeJS.WriteStream): void {
  output.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0)
    throw error
  })
}

/** `1.2 GB` */
export function bytesText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  const value = bytes / 1000 ** step
  return `${step === 0 ? value : value.toFixed(1)} ${units[step]}`
}
