/**
 * What a file leaves open is named and fails the run: planted leaks, in runs of mocha of their own, alone and in a worker.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { type Finished, runToEnd } from '#test/harness/run-command.ts'

const MOCHA = fileURLToPath(new URL('../../node_modules/mocha/bin/mocha.js', import.meta.url))

const PLANTED = `
import { spawn } from 'node:child_process'
import { connect, createServer } from 'node:net'
describe('a file', () => {
  it('opens', async () => {
    const server = createServer().listen(0)
    await new Promise(done => server.once('listening', done))
    LEAKS
  })
})
`
const LEAKS = {
  server: '',
  timer: 'server.close(); setInterval(() => undefined, 60_000)',
  'child process': "server.close(); spawn('sleep', ['60'], { stdio: 'ignore' })",
  socket:
    'const one = connect(server.address().port, "127.0.0.1"); await new Promise(done => one.once("connect", done)); server.close()',
}
const CLEAN = 'server.close(); setInterval(() => undefined, 60_000).unref(); setTimeout(() => undefined, 200)'

describe('handles that a test file leaves open', () => {
  let dir: string
  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'marketlog-leaks-'))
    writeFileSync(join(dir, 'servers.json'), '{}')
  })
  after(() => rmSync(dir, { recursive: true, force: true }))

  const runFile = (leak: string, ...options: string[]): Promise<Finished> => {
    const file = join(dir, 'planted.test.ts')
    writeFileSync(file, PLANTED.replace('LEAKS', leak))
    const limits = { MARKETLOG_TEST_CLOSE_LIMIT_MS: leak === CLEAN ? '60000' : '0' }
    const environment = { PATH: process.env.PATH, MARKETLOG_TEST_SERVERS: join(dir, 'servers.json'), ...limits }
    return runToEnd(process.execPath, [MOCHA, ...options, file], environment)
  }

  for (const [kind, leak] of Object.entries(LEAKS)) {
    it(`fail the run when one is a ${kind}, named with the line that opened it`, async () => {
      const { code, stdout } = await runFile(leak)
      expect(code, stdout).to.equal(1)
      expect(stdout).to.match(/"after all" hook: afterAll in "\{root\}"/)
      expect(stdout).to.match(/planted\.test\.ts left \d open:/)
      expect(stdout).to.match(new RegExp(`${kind}( on \\S+)?, opened at .*planted\\.test\\.ts:\\d+:\\d+`))
    })
  }

  it('fail a run with workers too', async () => {
    const { code, stdout } = await runFile(LEAKS.timer, '--parallel', '--jobs', '2')
    expect(code, stdout).to.equal(1)
    expect(stdout).to.match(/timer, opened at .*planted\.test\.ts:\d+:\d+/)
  })

  it('are none when all was closed, unref’d or ended by itself', async () => {
    const { code, stdout } = await runFile(CLEAN)
    expect(code, stdout).to.equal(0)
  })
})
