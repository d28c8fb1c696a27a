import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { failingRole } from '#test/fixtures/planted-faults/failing-role.ts'
import { runToEnd } from '#test/harness/run-command.ts'
import { startRoles } from '#test/harness/start-roles.ts'
import { testServers } from '#test/harness/test-servers.ts'
import { useServers } from '#test/harness/use-servers.ts'

const fileOf = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const problemOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(() => 'none').catch((error: Error) => error.message)
const MOCHA = fileOf('node_modules/mocha/bin/mocha.js')
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

describe('a role that ends in a test', () => {
  // Roles are started without the platform here, which would stop them once more at the end and find them out.
  const platform = useServers({ setUp: false })
  const start = (reason?: string) => startRoles([failingRole(reason)], platform)

  it('fails the stop of its roles unless that was announced', async () => {
    const unannounced = await start('no broker')
    expect(await problemOf(unannounced.stop())).to.equal('a role failed unannounced: no broker')
    expect(await problemOf(unannounced.stop()), 'the second time').to.include('unannounced')
    const otherwise = await start('no broker')
    otherwise.expectFailure(/no database/)
    expect(await problemOf(otherwise.stop())).to.include('unannounced')
    const announced = await start('no broker')
    announced.expectFailure(/broker/)
    expect(await problemOf(announced.stop())).to.equal('none')
  })

  it('fails its file when no test looks at it', async () => {
    const servers = join(platform.config.stateDir, 'servers.json')
    writeFileSync(servers, JSON.stringify(await testServers()))
    const planted = fileOf('test/fixtures/planted-faults/failed-role.ts')
    const environment = { ...process.env, MARKETLOG_TEST_SERVERS: servers }
    const { code, stdout } = await runToEnd(process.execPath, [MOCHA, planted], environment)
    expect([code, stdout.includes('1 passed, 1 failed')], stdout).to.deep.equal([1, true])
    expect(stdout).to.include('a role failed unannounced: planted failure')
  })
})
