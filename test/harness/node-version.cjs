/**
 * Ends a test run under a Node that cannot read TypeScript, with one line that says what to do.
 *
 * Loaded by .mocharc.json before any other file. Plain CommonJS that every Node can parse: under an older one the next
 * required file would end in `SyntaxError: Unexpected token ':'`.
 */
'use strict'

const NEEDED = 24
const USAGE = 64

if (Number(process.versions.node.split('.')[0]) < NEEDED) {
  process.stderr.write(
    `marketlog's tests need Node ${NEEDED}, this is ${process.version}: run \`npm test\`, or put node_modules/.bin first on PATH\n`,
  )
  process.exit(USAGE)
}
