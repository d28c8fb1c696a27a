import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'chai'

const REPOSITORY = join(import.meta.dirname, '../..')
const ROOMS = ['schemas', 'infra', 'streams', 'services', 'test']
/** Imports each client library, and is in the room of none. */
const STRAY = 'streams/book/libraries.ts'
const LIBRARIES = [
  ...[
    'kafkajs',
    '@kafkajs/confluent-schema-registry',
    'avsc',
    'ioredis',
    'rate-limiter-flexible',
    '@clickhouse/client',
  ],
  ...['pg', 'node-pg-migrate', 'graphile-worker', 'nodemailer', 'ipaddr.js', 'openid-client', 'oauth4webapi', 'jose'],
  ...['prom-client', 'pino', 'chdb', 'ffi-rs', 'hyparquet-writer', 'busboy', 'csv-parse', 'csv-stringify', 'express'],
  ...['marked', 'highlight.js', 'testcontainers', 'vite'],
  ...['react', 'react-dom', '@tanstack/react-query', 'lightweight-charts', 'uplot'],
]

/** File → what it imports, or its text. */
const ALLOWED: Record<string, string[] | string> = {
  'schemas/values.ts': ['zod', './topics.ts'],
  'infra/postgres/pool.ts': ['pg'],
  'infra/kafka/client/internals.ts': ['kafkajs/src/cluster.js'],
  'infra/config/build/catalog.ts': ['chai'],
  'infra/nested/room.ts': ['./in/part.ts'],
  'infra/nested/in/part.ts': ['../shared.ts'],
  'streams/sales/role.ts': ['#streams/fx/reader.ts', '../runner/run.ts'],
  'services/feed/role.ts': ['#streams/fx/reader.ts', '#streams/runner/run.ts', '#services/accounts/reader.ts'],
  'services/feed/keys.ts': ['#services/accounts/keys/commands.ts'],
  'services/clients/typescript/src/feed.ts': ['./events.ts', 'eventsource-parser'],
  'services/console/src/market/session.ts': ['#services/clients/typescript/src/marketlog.ts', '../values/amounts.ts'],
  'services/cli/command-line.ts': ['#infra/runtime/environment.ts'],
  'services/cli/roles.ts': ['#streams/book/main.ts', '#services/alerts/rules/main.ts', '#streams/runner/run.ts'],
  'services/cli/tools.ts': ['#streams/views.ts', '#streams/fx/view.ts', '#services/accounts/commands.ts'],
}

/** Rule → the files or folders that break it, and how. */
const BROKEN: Record<string, Record<string, string[] | string>> = {
  'schemas-are-pure': { 'schemas/room.ts': ['#infra/redis/r.ts'], 'schemas/io.ts': ['node:fs'] },
  'infra-knows-nobody': {
    'infra/redis/stream.ts': ['#streams/book/step.ts'],
    'infra/redis/test.ts': ['../../test/harness/h.ts'],
  },
  'streams-know-no-service': { 'streams/sales/service.ts': ['#services/api/main.ts'] },
  'streams-know-no-stream': { 'streams/sales/stream.ts': ['../book/step.ts'] },
  'runner-knows-no-stream': { 'streams/runner/stream.ts': ['#streams/fx/reader.ts'] },
  'services-know-no-service': {
    'services/feed/table.ts': ['#streams/fx/table.ts'],
    'services/feed/service.ts': ['#services/api/main.ts'],
    'services/feed/rows.ts': ['#services/accounts/keys/rows.ts'],
    'services/feed/deep.ts': ['#services/accounts/keys/old/reader.ts'],
  },
  'cli-composes': { 'services/cli/step.ts': ['#streams/book/step.ts'] },
  'clients-stand-alone': { 'services/clients/typescript/src/schema.ts': ['#schemas/topics.ts'] },
  'console-is-a-client': {
    'services/console/src/schema.ts': ['#schemas/topics.ts'],
    'services/console/src/feed.ts': ['#services/clients/typescript/src/feed.ts'],
    'services/console/src/server.ts': ['node:fs'],
  },
  'only-tests-know-checks': { 'infra/redis/check.ts': ['../checks/packages.ts'] },
  'no-circle-of-files': {
    'infra/files/a.ts': ['./b.ts'],
    'infra/forms/a.ts': "import type { B } from './b.ts'\nexport type A = B",
  },
  'no-circle-of-folders': { 'infra/one': '', 'infra/two': '', 'services/api/one': '', 'services/api/two': '' },
  'environment-is-handed-down': { 'infra/redis/settings.ts': ['../runtime/environment.ts'] },
  'no-development-dependency': { 'infra/redis/development.ts': ['chai'] },
  'kafkajs-insides-stay-with-its-corrections': {
    'infra/kafka/insides.ts': ['kafkajs/src/cluster.js'],
    'infra/kafka/client-insides.ts': ['./client/internals.ts'],
  },
  'names-say-something': {
    'infra/redis/file.ts': ['./helpers.ts'],
    'infra/redis/folder.ts': ['../common/a.ts'],
    'infra/redis/barrel.ts': ['./index.ts'],
  },
  'client-library-pg': {
    'infra/redis/type.ts': "import type { Pool } from 'pg'\nexport type A = Pool",
    'infra/redis/dynamic.ts': "export const load = async () => await import('pg')",
    'infra/redis/export.ts': "export * from 'pg'",
  },
}

/** What closes the circles that are broken above. */
const CIRCLES = {
  'infra/files/b.ts': ['./c.ts'],
  'infra/files/c.ts': ['./a.ts'],
  'infra/forms/b.ts': "import type { A } from './a.ts'\nexport type B = A",
  'infra/one/a.ts': ['../two/a.ts'],
  'infra/two/in/b.ts': ['../../one/b.ts'],
  'services/api/one/a.ts': ['../two/a.ts'],
  'services/api/two/b.ts': ['../one/b.ts'],
}

const PACKAGE = {
  type: 'module',
  imports: Object.fromEntries(ROOMS.map(room => [`#${room}/*`, `./${room}/*`])),
  devDependencies: { chai: '1' },
}

interface Violation {
  rule: { name: string }
  from: string
  to: string
}

const textOf = (content: string[] | string): string =>
  typeof content === 'string' ? content : content.map(target => `import '${target}'\n`).join('')

/** The tree with an empty file wherever an import of it leads. */
function wholeTree(): Record<string, string> {
  const written = { ...ALLOWED, ...CIRCLES, ...Object.assign({}, ...Object.values(BROKEN)), [STRAY]: LIBRARIES }
  const sources = Object.entries(written as typeof ALLOWED).filter(([path]) => path.endsWith('.ts'))
  const targets = sources.flatMap(([path, content]) =>
    [...textOf(content).matchAll(/'([#.][^']+)'/g)].map(([, name = '']) =>
      name.startsWith('#') ? name.slice(1) : join(dirname(path), name),
    ),
  )
  return {
    'package.json': JSON.stringify(PACKAGE),
    'node_modules/chai/package.json': JSON.stringify({ name: 'chai', main: 'main.js' }),
    'node_modules/chai/main.js': '',
    ...Object.fromEntries(targets.map(path => [path, ''])),
    ...Object.fromEntries(sources.map(([path, content]) => [path, textOf(content)])),
  }
}

describe('import rules', () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'marketlog-tree-')))
  let violations: Violation[]
  let rules: string[]

  before(async () => {
    for (const [path, text] of Object.entries(wholeTree())) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      writeFileSync(join(root, path), text)
    }
    const config = join(REPOSITORY, 'infra/checks/dependency-cruiser.cjs')
    const command = [join(REPOSITORY, 'node_modules/.bin/depcruise'), '-c', config, '-T', 'json', ...ROOMS]
    const { stdout } = await promisify(execFile)(process.execPath, command, { cwd: root, maxBuffer: 2 ** 26 })
    const { summary } = JSON.parse(stdout)
    violations = summary.violations
    rules = summary.ruleSetUsed.forbidden.map(({ name }: { name: string }) => name)
  })
  after(() => rmSync(root, { recursive: true, force: true }))

  it('name each import that breaks a rule, and no other', () => {
    // Whole rooms circle in this tree, since it breaks the direction of rooms.
    const inRooms = violations.filter(({ from }) => from !== STRAY && from.includes('/'))
    const found = [...new Set(inRooms.map(({ rule, from }) => `${rule.name} ${from}`))]
    const broken = Object.entries(BROKEN).flatMap(([rule, files]) => Object.keys(files).map(file => `${rule} ${file}`))
    expect(found.sort()).to.deep.equal(broken.sort())
  })

  it('keep each client library in its room', () =>
    expect(violations.filter(({ from }) => from === STRAY).map(({ to }) => to)).to.have.members(LIBRARIES))

  it('are all broken here', () => expect([...new Set(violations.map(({ rule }) => rule.name))]).to.have.members(rules))
})
