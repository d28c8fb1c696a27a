/**
 * Roles that end in a test: unannounced they fail it, announced they must have ended for the reason given.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { failingRole } from '#test/fixtures/planted-faults/failing-role.ts'
import { spawnRole } from '#test/harness/spawn-role.ts'
import { startRoles } from '#test/harness/start-roles.ts'
import { testServers } from '#test/harness/test-servers.ts'
import { useServers } from '#test/harness/use-servers.ts'

const fileOf = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const problemOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'none',
    error => (error as Error).message,
  )

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

  it('fails the stop when it was announced and runs on', async () => {
    const roles = await start()
    roles.expectFailure(/broker/)
    expect(await problemOf(roles.stop())).to.equal('no role failed for /broker/, which was announced')
  })

  it('fails the stop of its process unless that was announced', async () => {
    const environment = { ...platform.environment, KAFKA_BROKERS: '' }
    const unannounced = await spawnRole('feed', environment)
    await unannounced.ended
    expect(await problemOf(unannounced.stop())).to.match(
      /^feed ended by itself unannounced \(code [1-9].*KAFKA_BROKERS/s,
    )
    const announced = await spawnRole('feed', environment)
    announced.expectEnd(/KAFKA_BROKERS/)
    await announced.ended
    expect(await problemOf(announced.stop())).to.equal('none')
    const otherwise = await spawnRole('feed', environment)
    otherwise.allowEnd(/the partition was lost/)
    await otherwise.ended
    expect(await problemOf(otherwise.stop())).to.include('unannounced')
  })

  it('counts as announced when the test has killed its process, and not as ended by itself', async () => {
    const killed = await spawnRole('feed', platform.environment)
    killed.kill('SIGKILL')
    await killed.ended
    expect(await problemOf(killed.stop())).to.equal('none')
    const expected = await spawnRole('feed', platform.environment)
    expected.expectEnd(/./)
    expected.kill('SIGKILL')
    expect(await problemOf(expected.stop())).to.include('did not end by itself for /./')
    const byOthers = await spawnRole('feed', platform.environment)
    process.kill(byOthers.pid, 'SIGKILL')
    await byOthers.ended
    expect(await problemOf(byOthers.stop())).to.include('unannounced (SIGKILL)')
  })

  it('fails its file when no test looks at it', async () => {
    const servers = join(platform.config.stateDir, 'servers.json')
    writeFileSync(servers, JSON.stringify(await testServers()))
    const mocha = fileOf('node_modules/mocha/bin/mocha.js')
    const child = spawn(process.execPath, [mocha, fileOf('test/fixtures/planted-faults/failed-role.ts')], {
      env: { ...process.env, MARKETLOG_TEST_SERVERS: servers },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    const [code] = await once(child, 'close')
    expect([code, output.includes('1 passed, 1 failed')], output).to.deep.equal([1, true])
    expect(output).to.include('a role failed unannounced: planted failure')
  })
})
