/** The Python package as its users get it: built, installed into a fresh environment, checked, and every operation called by it. */
import { join } from 'node:path'
import { expect } from 'chai'
import { OPERATIONS, recordsFor, sentOf, variantsOf } from '#test/fixtures/operation-requests.ts'
import type { Ids, Variant } from '#test/fixtures/operation-steps.ts'
import { PINNED, type PinnedOperation, type Schema } from '#test/fixtures/pinned-operations.ts'
import {
  describeWithPython,
  openPythonPackage,
  PYTHON_ROOM,
  type PythonPackage,
  type PythonProgram,
} from '#test/fixtures/python-package.ts'
import { openSweep, type Sweep } from '#test/fixtures/sweep-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const INSTALL_LIMIT_MS = 900_000
/** Of feeds, which are no methods of the client itself. */
const FEED_METHODS: Record<string, string> = {
  streamPriceChanges: 'feed.prices',
  streamBidChanges: 'feed.bids',
  streamSales: 'feed.sales',
  replayPriceChanges: 'feed.replay_prices',
  replayBidChanges: 'feed.replay_bids',
  replaySales: 'feed.replay_sales',
}
/** A browser brings what the sign-in's provider adds to the address, which is not described; without it they are refused. */
const BROWSERS_ALONE = new Set(['finishSignIn', 'finishPlatformLink'])
const NEVER_A_POSITION = 'a-position-of-no-log'

interface Described {
  operationId: string
  responses: Record<string, { content?: Record<string, { schema: { $ref: string } }> }>
}

const snakeOf = (name: string): string =>
  name
    .replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, '_')
    .replaceAll('-', '_')
    .toLowerCase()
const describedAs = ({ path, method }: PinnedOperation): Described =>
  PINNED.paths[path]?.[method.toLowerCase()] as unknown as Described

function methodOf(operation: PinnedOperation): string {
  const { operationId } = describedAs(operation)
  return FEED_METHODS[operationId] ?? snakeOf(operationId)
}

/** The arguments of a method that make a request, and those of its path. */
function argumentsOf(operation: PinnedOperation, ids: Ids, variant: Variant) {
  const { path, headers, body } = sentOf(operation, ids, variant)
  const query = new URL(path, 'http://localhost').searchParams
  const members: Record<string, unknown> = variant.file === undefined ? {} : { file: variant.file }
  for (const { name, schema } of operation.queryParameters.filter(one => query.has(one.name))) {
    const values = query.getAll(name).map(text => typedValue(text, schema.items ?? schema))
    members[name === 'from' ? 'from_' : snakeOf(name)] = schema.type === 'array' ? values : values[0]
  }
  if (body !== undefined && variant.file === undefined) Object.assign(members, JSON.parse(body))
  if (describedAs(operation).operationId in FEED_METHODS) {
    if (operation.path.includes('replay')) members.speed = 0
    else members.last_event_id = NEVER_A_POSITION
  }
  const inPath = operation.pathParameters.map(name => ids[name])
  return { path: inPath, arguments: members, headers: headers ?? {} }
}

function typedValue(text: string, { type }: Schema): unknown {
  if (type === 'integer' || type === 'number') return Number(text)
  return type === 'boolean' ? text === 'true' : text
}

/** The name of the type that a method returns. */
function returnedBy(operation: PinnedOperation): string {
  const { status, type, schema } = operation.success
  if (BROWSERS_ALONE.has(describedAs(operation).operationId)) return 'MarketlogError'
  const model = describedAs(operation).responses[status]?.content?.[type ?? '']?.schema.$ref.split('/').pop() ?? ''
  if (type === 'text/event-stream') return operation.path.includes('replay') ? 'list' : 'FeedGap'
  if (type === 'application/x-ndjson') return 'list'
  if (type === 'application/json') return schema?.properties ? model : schema?.type === 'array' ? 'list' : 'dict'
  return status === 204 ? 'NoneType' : 'str'
}

describeWithPython('the Python package', function () {
  this.timeout(INSTALL_LIMIT_MS)
  let own: PythonPackage

  before('the wheel', async () => {
    own = await openPythonPackage()
  })
  after(() => own?.close())

  it('is installed into a fresh environment with what it needs', async () => {
    const fresh = join(own.folder, 'fresh')
    const pip = join(fresh, 'bin/pip')
    await own.run('python3', ['-m', 'venv', fresh])
    await own.run(pip, ['install', '--quiet', `${own.wheel}[pandas,polars]`], own.folder)
    const imports = 'import marketlog.frames, marketlog.webhooks, polars, pandas; print(marketlog.__file__)'
    const output = await own.run(join(fresh, 'bin/python'), ['-c', imports], own.folder)
    expect(output).to.include(fresh)
  })

  it('passes its own tests', async () => {
    const pytest = ['python', '-m', 'pytest', '--quiet', '-p', 'no:cacheprovider', join(PYTHON_ROOM, 'tests')]
    const output = await own.run('env', [`PYTHONPATH=${own.site}`, ...pytest])
    expect(output).to.match(/\d+ passed/)
    expect(output).not.to.match(/failed|skipped/)
  })

  it('keeps the rules of ruff, in its form', async () => {
    const rules = ['--no-cache', '--config', 'pyproject.toml', '.', '../notebooks', '../../../test/fixtures/python']
    await own.run('ruff', ['check', ...rules])
    await own.run('ruff', ['format', '--check', ...rules])
  })

  it('is typed strictly, what is generated of it too', async () => {
    const mypy = ['mypy', '--config-file', 'pyproject.toml', '--cache-dir', join(own.folder, 'mypy')]
    await own.run('env', [`MYPYPATH=${own.site}`, ...mypy, '-p', 'marketlog'])
    await own.run('env', [`MYPYPATH=${own.site}:generate`, ...mypy, 'generate', 'tests'])
  })

  describe('on a platform', () => {
    const platform = useServers({ catalog: 'whole' })
    let sweep: Sweep
    const programs: Record<string, PythonProgram> = {}

    before('a market, and accounts', async () => {
      sweep = await openSweep(platform)
      for (const client of ['sync', 'async']) programs[client] = own.start('call_operations.py', [client])
    })
    after(async () => {
      for (const program of Object.values(programs)) await program.stop()
      await sweep?.close()
    })

    for (const client of ['sync', 'async'])
      for (const operation of OPERATIONS)
        it(`calls ${methodOf(operation)}, ${client}`, async () => {
          const isRecent = operation.credential === 'recent-session'
          const caller = isRecent ? await sweep.openSigned('quant') : await sweep.openCaller('quant')
          const ids = await recordsFor(operation, sweep, caller)
          const [variant = {}] = await variantsOf(operation, sweep, caller)
          const key = operation.tiers.length === 0 ? '' : (variant.as ?? caller.key)
          const call = argumentsOf(operation, ids, variant)
          const program = programs[client] as PythonProgram
          const before = program.lines.length
          program.write({ url: sweep.signIn.baseUrl, key, method: methodOf(operation), ...call })
          await eventually(() => program.lines.length > before || program.complaints() !== '', 'an answer')
          expect(program.complaints()).to.equal('')
          const { type, error } = program.lines.at(-1)
          expect(type, error).to.equal(returnedBy(operation))
        })
  })
})
