/**
 * What a file leaves open fails it: planted leaks, in runs of mocha of their own, alone and in a worker.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { runToEnd } from '#test/harness/run-command.ts'

const MOCHA = fileURLToPath(new URL('../../node_modules/mocha/bin/mocha.js', import.meta.url))
const LEAKS = {
  ProcessWrap: "spawn('sleep', ['60'], { stdio: 'ignore' })",
  TCPServerWrap: "await once(createServer().listen(0), 'listening')",
  Timeout: 'setInterval(() => undefined, 60_000)',
}
const CLOSED = 'setInterval(() => undefined, 60_000).unref(); setTimeout(() => undefined, 200)'

describe('what a test file leaves open', () => {
  let dir: string
  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'marketlog-leaks-'))
    writeFileSync(join(dir, 'servers.json'), '{}')
  })
  after(() => rmSync(dir, { recursive: true, force: true }))

  const run = async (leaks: Record<string, string>, limitMs: number, ...options: string[]) => {
    const files = Object.entries(leaks).map(([name, leak]) => {
      const file = join(dir, `${name}.test.ts`)
      const imports = `import { spawn } from 'node:child_process'; import { once } from 'node:events'; import { createServer } from 'node:net'`
      writeFileSync(file, `${imports}\ndescribe('${name}', () => { it('opens', async () => { ${leak} }) })`)
      return file
    })
    const environment = { PATH: process.env.PATH, MARKETLOG_TEST_SERVERS: join(dir, 'servers.json') }
    const limits = { MARKETLOG_TEST_CLOSE_LIMIT_MS: String(limitMs) }
    return runToEnd(process.execPath, [MOCHA, ...options, ...files], { ...environment, ...limits })
  }

  for (const options of [[], ['--parallel', '--jobs', '2']]) {
    it(`fails that file by its name, and no other (${options[0] ?? 'in one process'})`, async () => {
      const { code, stdout } = await run({ ...LEAKS, closed: '' }, 0, ...options)
      expect(code, stdout).to.equal(3)
      for (const kind of Object.keys(LEAKS))
        expect(stdout).to.match(new RegExp(`/${kind}\\.test\\.ts left open: ${kind}\n`))
      expect(stdout).to.match(/4 passed, 3 failed\n$/)
    })
  }

  it('is nothing when all was closed, unref’d or ended by itself', async () => {
    const { code, stdout } = await run({ closed: CLOSED }, 60_000)
    expect(code, stdout).to.equal(0)
  })
})
