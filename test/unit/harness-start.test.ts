import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { noteAbsence } from '#test/harness/absences.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'
import { runToEnd } from '#test/harness/run-command.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const GUARD = `${ROOT}test/harness/node-version.cjs`

const underNode = (version: string) => {
  const versions = `{ value: { ...process.versions, node: '${version}' } }`
  const script = `Object.defineProperty(process, 'versions', ${versions})
    Object.defineProperty(process, 'version', { value: 'v${version}' })
    require(${JSON.stringify(GUARD)})
    console.log('goes on')`
  return runToEnd(process.execPath, ['-e', script], {})
}

describe('a run of tests', () => {
  // A file of TypeScript was required first: `SyntaxError: Unexpected token ':'`.
  it('says in one line what it needs under an older Node, before it reads any TypeScript', async () => {
    const { require } = JSON.parse(readFileSync(`${ROOT}.mocharc.json`, 'utf8')) as { require: string[] }
    expect(`${ROOT}${require[0]?.slice(2)}`).to.equal(GUARD)
    for (const version of ['18.20.8', '20.20.2', '22.23.3']) {
      const { code, stdout, stderr } = await underNode(version)
      expect({ code, stdout }).to.deep.equal({ code: 64, stdout: '' })
      expect(stderr).to.equal(
        `marketlog's tests need Node 24, this is v${version}: run \`npm test\`, or put node_modules/.bin first on PATH\n`,
      )
    }
    expect(await underNode('24.0.0')).to.deep.equal({ code: 0, stdout: 'goes on\n', stderr: '' })
  })

  it('of units alone fails when a test asks for a server', async () => {
    const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'))
    expect(scripts['test:unit']).to.match(/^MARKETLOG_TEST_SERVERS=none mocha /)
    const script = `import('${ROOT}test/harness/test-servers.ts').then(({ testServers }) => testServers()).catch(error => console.log(error.message))`
    const { stdout } = await runToEnd(process.execPath, ['-e', script], { MARKETLOG_TEST_SERVERS: 'none' })
    expect(stdout).to.equal('a unit test asked for a server: it belongs in test/integration\n')
  })

  it('fails in continuous integration, and there alone, where something is absent', async () => {
    const note = (CI?: string) => noteAbsence('a disk', 'less is checked', { CI })
    for (const CI of ['true', '1'])
      expect(() => note(CI)).to.throw('a disk is absent, which continuous integration does not allow: less is checked')
    for (const CI of [undefined, '', 'false']) note(CI)
    const bare = { PATH: '', MARKETLOG_INSTALL: 'never', MARKETLOG_CACHE: '/nonexistent' }
    expect(await findJavaReader(bare, '/nonexistent')).to.equal(undefined)
    const refused = await findJavaReader({ ...bare, CI: 'true' }, '/nonexistent').then(() => 'found', String)
    expect(refused).to.include('A JDK is needed').and.include('MARKETLOG_INSTALL=never forbids it')
  })
})
