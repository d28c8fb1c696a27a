/** Standard output of a command that runs in the test's process. It is no terminal, so commands write what they write into a pipe. */
import { Writable } from 'node:stream'

export interface CollectedOutput {
  readonly stream: Writable
  text(): string
  /** The lines as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: each command has a shape of its own.
  lines(): any[]
}

export function collectOutput(): CollectedOutput {
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
    lines: () =>
      text
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line)),
  }
}
