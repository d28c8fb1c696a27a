/** The pinned description of the API, which the gate compares with the one that is served, as common tools read it. */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { PINNED_FILE } from '#test/fixtures/pinned-operations.ts'
import { noteAbsence } from '#test/harness/absences.ts'
import { openCachedTools } from '#test/harness/cached-tools.ts'

const LIMIT_MS = 900_000
const VERSIONS = {
  node: [
    '@apiture/openapi-down-convert@0.14.2',
    '@hey-api/openapi-ts@0.95.0',
    '@stoplight/spectral-cli@6.16.3',
    'openapi-typescript@7.13.0',
    'typescript@5.9.3',
  ],
  python: ['mypy==2.4.1', 'openapi-python-client==0.29.1'],
  go: 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2',
  goRuntime: 'github.com/oapi-codegen/runtime@v1.9.0',
}

/** The generator knows JSON alone; the lines of a stream are read by who calls. */
const PYTHON_SETTINGS = { content_type_overrides: { 'application/x-ndjson': 'application/json' } }
const IMPORT_ALL = `import importlib, pkgutil, sys
sys.path.insert(0, 'package')
import marketlog_client as all
for one in pkgutil.walk_packages(all.__path__, all.__name__ + '.'): importlib.import_module(one.name)`

describe('the description of the API, to other tools,', function () {
  this.timeout(LIMIT_MS)
  const commands = ['node/node_modules/.bin', 'python/bin', 'go']
  const tools = openCachedTools('openapi-generators', VERSIONS, commands)
  let folder: string

  const run = (command: string, ...args: string[]): Promise<string> => tools.run(folder, command, ...args)
  const write = (file: string, content: unknown): void => writeFileSync(join(folder, file), JSON.stringify(content))
  const isPresent = (command: string, ...args: string[]): Promise<boolean> =>
    run(command, ...args).then(
      () => true,
      () => false,
    )
  const compile = (...files: string[]): Promise<string> => {
    const target = ['--target', 'es2022', '--lib', 'es2022,dom,dom.iterable']
    return run(
      'tsc',
      '--noEmit',
      '--strict',
      ...target,
      ...['--module', 'esnext', '--moduleResolution', 'bundler'],
      ...files,
    )
  }

  before('the tools', async () => {
    folder = mkdtempSync(join(tmpdir(), 'marketlog-generators-'))
    copyFileSync(PINNED_FILE, join(folder, 'openapi.json'))
    await tools.install('node', into => run('npm', 'install', '--ignore-scripts', '--prefix', into, ...VERSIONS.node))
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

  it("keeps Spectral's recommended rules", async () => {
    write('spectral.json', { extends: ['spectral:oas'] })
    await run('spectral', 'lint', '--fail-severity', 'hint', '--ruleset', 'spectral.json', 'openapi.json')
  })

  it('gives openapi-typescript types that compile', async () => {
    expect(await run('openapi-typescript', 'openapi.json', '--output', 'types.ts')).not.to.match(/warn|⚠/i)
    await compile('types.ts')
  })

  it('gives @hey-api/openapi-ts a client that compiles', async () => {
    const output = await run('openapi-ts', '--input', 'openapi.json', '--output', 'client', '--no-log-file')
    expect(output).not.to.match(/warn|error|⚠/i)
    await compile('client/index.ts')
  })

  it('gives openapi-python-client a package that is imported and whose types hold', async () => {
    const isReady = await isPresent('python3', '-c', 'import ensurepip, venv')
    if (!isReady) return noteAbsence('Python with venv', 'no Python client is generated')
    await tools.install('python', async into => {
      await run('python3', '-m', 'venv', into)
      await run(join(into, 'bin/pip'), 'install', '--quiet', ...VERSIONS.python)
    })
    write('python.json', PYTHON_SETTINGS)
    const generate = ['generate', '--fail-on-warning', '--config', 'python.json']
    await run('openapi-python-client', ...generate, '--path', 'openapi.json', '--output-path', 'package')
    await run('python', '-m', 'compileall', '-q', 'package')
    await run('python', '-c', IMPORT_ALL)
    await run('python', '-m', 'mypy', 'package/marketlog_client')
  })

  it('gives oapi-codegen a client that builds, from a copy in OpenAPI 3.0', async () => {
    if (!(await isPresent('go', 'version'))) return noteAbsence('Go', 'no Go client is generated')
    await tools.install('go', into => run('env', `GOBIN=${into}`, 'go', 'install', VERSIONS.go))
    expect(await run('openapi-down-convert', '--input', 'openapi.json', '--output', 'openapi30.json')).to.equal('')
    const generate = ['-generate', 'types,client', '-package', 'marketlog', '-o', 'client.gen.go']
    expect(await run('oapi-codegen', ...generate, 'openapi30.json')).to.equal('')
    await run('go', 'mod', 'init', 'example.com/marketlog')
    await run('go', 'get', VERSIONS.goRuntime)
    await run('go', 'build', './...')
  })
})
