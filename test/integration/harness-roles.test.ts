/** Roles that end in a test: unannounced they fail it, announced they must have ended for the reason given. */
import { writeFileSync } from 'node:fs'
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
    const mocha = fileOf('node_modules/mocha/bin/mocha.js')
    const planted = fileOf('test/fixtures/planted-faults/failed-role.ts')
    const environment = { ...process.env, MARKETLOG_TEST_SERVERS: servers }
    const { code, stdout } = await runToEnd(process.execPath, [mocha, planted], environment)
    expect([code, stdout.includes('1 passed, 1 failed')], stdout).to.deep.equal([1, true])
    expect(stdout).to.include('a role failed unannounced: planted failure')
  })
})
