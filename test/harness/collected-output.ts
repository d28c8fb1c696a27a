/** Standard output of a command that runs in the test's process. It is no terminal, so commands write what they write into a pipe. */
import { Writable } from 'node:stream'

export type CollectedOutput = ReturnType<typeof collectOutput>

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
