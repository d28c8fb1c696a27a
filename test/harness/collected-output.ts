/** Standard output of a command that runs in the test's process. It is no terminal, so commands write what they write into a pipe. */
import { Writable } from 'node:stream'
import type { CommandContext } from '#services/cli/output.ts'

export type CollectedOutput = ReturnType<typeof collectOutput>

/** A command's context on a platform of the test's. */
export const contextOf = ({ config, log }: Omit<CommandContext, 'output'>, { stream }: CollectedOutput) => ({
  config,
  log,
  output: stream,
})

export function collectOutput() {
  let text = ''
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk)
      done()
    },
  })
  return {
    stream,
    text: () => text,
    // biome-ignore lint/suspicious/noExplicitAny: each command has a shape of its own.
    lines: (): any[] =>
      text
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line)),
  }
}
