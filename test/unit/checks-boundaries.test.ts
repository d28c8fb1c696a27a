/**
 * The import rules: each is given a small tree that breaks it, and one that keeps it.
 */
import { expect } from 'chai'
import { checkBoundaries } from '#infra/checks/boundaries.ts'
import { withTree } from '#test/harness/source-tree.ts'

const PACKAGE = JSON.stringify({
  type: 'module',
  imports: {
    '#schemas/*': './schemas/*',
    '#infra/*': './infra/*',
    '#streams/*': './streams/*',
    '#services/*': './services/*',
  },
  dependencies: { pg: '1', express: '1', zod: '1' },
  devDependencies: { chai: '1' },
})

const PACKAGES = Object.fromEntries(
  ['pg', 'express', 'zod', 'chai', 'kafkajs'].flatMap(name => [
    [`node_modules/${name}/package.json`, JSON.stringify({ name, main: 'main.js' })],
    [`node_modules/${name}/main.js`, ''],
  ]),
)

const rulesBrokenBy = (files: Record<string, string>): Promise<string[]> =>
  withTree({ 'package.json': PACKAGE, ...PACKAGES, ...files }, async root =>
    (await checkBoundaries(root)).map(({ rule, file }) => `${rule} ${file}`),
  )

describe('import rules', () => {
  const target = { 'schemas/a.ts': 'export const a = 1', 'infra/redis/r.ts': 'export const r = 1' }
  const cases: { name: string; files: Record<string, string>; broken: string[] }[] = [
    {
      name: 'a schema that imports a room',
      files: { 'schemas/b.ts': "import '#infra/redis/r.ts'" },
      broken: ['schemas-are-pure schemas/b.ts'],
    },
    {
      name: 'a schema that does I/O',
      files: { 'schemas/b.ts': "import 'node:fs'" },
      broken: ['schemas-are-pure schemas/b.ts'],
    },
    { name: 'a schema of zod', files: { 'schemas/b.ts': "import 'zod'; import './a.ts'" }, broken: [] },
    {
      name: 'infra that knows a stream',
      files: { 'infra/x/b.ts': "import '#streams/book/step.ts'", 'streams/book/step.ts': '' },
      broken: ['infra-knows-nobody infra/x/b.ts'],
    },
    {
      name: 'a stream that knows another',
      files: { 'streams/sales/b.ts': "import '../book/step.ts'", 'streams/book/step.ts': '' },
      broken: ['streams-know-no-stream streams/sales/b.ts'],
    },
    {
      name: 'readers of a view',
      files: {
        'streams/sales/b.ts': "import '#streams/live-view/reader.ts'",
        'services/feed/b.ts': "import '#streams/live-view/reader.ts'",
        'services/api/b.ts': "import '#streams/live-view/reader.ts'",
        'streams/live-view/reader.ts': '',
      },
      broken: [],
    },
    {
      name: 'the api that knows the keys of a view',
      files: { 'services/api/b.ts': "import '#streams/live-view/table.ts'", 'streams/live-view/table.ts': '' },
      broken: ['services-know-no-service services/api/b.ts'],
    },
    {
      name: 'a stream that uses the runner',
      files: { 'streams/sales/b.ts': "import '../runner/run.ts'", 'streams/runner/run.ts': '' },
      broken: [],
    },
    {
      name: 'the runner that knows a stream',
      files: { 'streams/runner/run.ts': "import '../sales/b.ts'", 'streams/sales/b.ts': '' },
      broken: ['runner-knows-no-stream streams/runner/run.ts', 'streams-know-no-stream streams/runner/run.ts'],
    },
    {
      name: 'a stream that knows a service',
      files: { 'streams/sales/b.ts': "import '#services/api/main.ts'", 'services/api/main.ts': '' },
      broken: ['streams-know-no-service streams/sales/b.ts'],
    },
    {
      name: 'a service that knows another',
      files: { 'services/feed/b.ts': "import '#services/api/main.ts'", 'services/api/main.ts': '' },
      broken: ['services-know-no-service services/feed/b.ts'],
    },
    {
      name: 'infra that touches the insides of kafkajs',
      files: {
        'infra/kafka/a.ts': "import 'kafkajs/src/cluster.js'",
        'infra/kafka/b.ts': "import './client/internals.ts'",
        'infra/kafka/client/internals.ts': "import 'kafkajs/src/cluster.js'",
        'node_modules/kafkajs/src/cluster.js': '',
      },
      broken: [
        'kafkajs-insides-stay-with-its-corrections infra/kafka/a.ts',
        'kafkajs-insides-stay-with-its-corrections infra/kafka/b.ts',
      ],
    },
    {
      name: 'a service that reads with a group by the runner',
      files: { 'services/accounts/main.ts': "import '#streams/runner/run.ts'", 'streams/runner/run.ts': '' },
      broken: [],
    },
    {
      name: 'a service that knows a stream',
      files: { 'services/feed/b.ts': "import '#streams/sales/b.ts'", 'streams/sales/b.ts': '' },
      broken: ['services-know-no-service services/feed/b.ts'],
    },
    {
      name: 'a service that asks a view by its reader',
      files: { 'services/feed/b.ts': "import '#streams/sales/reader.ts'", 'streams/sales/reader.ts': '' },
      broken: [],
    },
    {
      name: 'the api that asks a view by its reader',
      files: { 'services/api/b.ts': "import '#streams/sales/reader.ts'", 'streams/sales/reader.ts': '' },
      broken: [],
    },
    {
      name: 'the api that knows the table of a view',
      files: { 'services/api/b.ts': "import '#streams/sales/table.ts'", 'streams/sales/table.ts': '' },
      broken: ['services-know-no-service services/api/b.ts'],
    },
    {
      name: 'a stream that asks the view of another by its reader',
      files: { 'streams/fx/b.ts': "import '#streams/sales/reader.ts'", 'streams/sales/reader.ts': '' },
      broken: [],
    },
    {
      name: 'a comparison that shares the fold of its role',
      files: { 'streams/fx/verify.ts': "import './step.ts'", 'streams/fx/step.ts': '' },
      broken: ['verify-folds-by-itself streams/fx/verify.ts'],
    },
    {
      name: 'a comparison that asks another view than its role does',
      files: { 'streams/fx/verify.ts': "import '#streams/sales/reader.ts'", 'streams/sales/reader.ts': '' },
      broken: [],
    },
    {
      name: 'the composition root that reads the list of views',
      files: { 'services/cli/b.ts': "import '#streams/views.ts'", 'streams/views.ts': '' },
      broken: [],
    },
    {
      name: 'a service that asks another one',
      files: {
        'services/api/b.ts': "import '#services/accounts/keys/commands.ts'; import '#services/accounts/reader.ts'",
        'services/accounts/keys/commands.ts': '',
        'services/accounts/reader.ts': '',
      },
      broken: [],
    },
    {
      name: 'a service that reaches past what another one offers',
      files: {
        'services/api/b.ts': "import '#services/accounts/keys/rows.ts'",
        'services/accounts/keys/rows.ts': '',
        'services/api/c.ts': "import '#services/accounts/keys/old/reader.ts'",
        'services/accounts/keys/old/reader.ts': '',
      },
      broken: ['services-know-no-service services/api/b.ts', 'services-know-no-service services/api/c.ts'],
    },
    {
      name: 'the api that knows the feed',
      files: { 'services/api/b.ts': "import '#services/feed/hub.ts'", 'services/feed/hub.ts': '' },
      broken: ['services-know-no-service services/api/b.ts'],
    },
    {
      name: 'the composition root that starts a room',
      files: { 'services/cli/b.ts': "await import('#streams/book/main.ts')", 'streams/book/main.ts': '' },
      broken: [],
    },
    {
      name: 'the composition root that starts a role of a folder of a service, and asks services',
      files: {
        'services/cli/b.ts':
          "await import('#services/alerts/rules/main.ts'); await import('#services/accounts/commands.ts')",
        'services/alerts/rules/main.ts': '',
        'services/accounts/commands.ts': '',
      },
      broken: [],
    },
    {
      name: 'the composition root that reaches into a room',
      files: { 'services/cli/b.ts': "import '#streams/book/step.ts'", 'streams/book/step.ts': '' },
      broken: ['cli-composes services/cli/b.ts'],
    },
    {
      name: 'production code that imports tests',
      files: { 'infra/x/b.ts': "import '../../test/harness/h.ts'", 'test/harness/h.ts': '' },
      broken: ['infra-knows-nobody infra/x/b.ts'],
    },
    {
      name: 'a client library outside its room',
      files: { 'infra/redis/b.ts': "import 'pg'" },
      broken: ['client-library-pg infra/redis/b.ts'],
    },
    { name: 'a client library in its room', files: { 'infra/postgres/b.ts': "import 'pg'" }, broken: [] },
    {
      name: 'an import of a type alone',
      files: { 'infra/redis/b.ts': "import type { Pool } from 'pg'\nexport type A = Pool" },
      broken: ['client-library-pg infra/redis/b.ts'],
    },
    {
      name: 'an import inside an expression',
      files: { 'infra/redis/b.ts': "export const load = async () => await import('pg')" },
      broken: ['client-library-pg infra/redis/b.ts'],
    },
    {
      name: 'an export that imports',
      files: { 'infra/redis/b.ts': "export * from 'pg'" },
      broken: ['client-library-pg infra/redis/b.ts'],
    },
    {
      name: 'an import that leads nowhere',
      files: { 'infra/redis/b.ts': "import './nowhere.ts'" },
      broken: ['resolves infra/redis/b.ts'],
    },
    {
      name: 'production code with a development dependency',
      files: { 'infra/redis/b.ts': "import 'chai'" },
      broken: ['no-development-dependency infra/redis/b.ts'],
    },
    {
      name: 'files in a circle',
      files: {
        'infra/x/b.ts': "import './c.ts'",
        'infra/x/c.ts': "import './d.ts'",
        'infra/x/d.ts': "import './b.ts'",
      },
      broken: ['no-circle-of-files infra/x/b.ts'],
    },
    {
      name: 'files in a circle of types',
      files: {
        'infra/x/b.ts': "import type { C } from './c.ts'\nexport type B = C",
        'infra/x/c.ts': "import type { B } from './b.ts'\nexport type C = B",
      },
      broken: ['no-circle-of-files infra/x/b.ts'],
    },
    {
      name: 'rooms in a circle without one of files',
      files: {
        'infra/x/b.ts': "import '../y/c.ts'",
        'infra/y/c.ts': '',
        'infra/y/d.ts': "import '../x/e.ts'",
        'infra/x/e.ts': '',
      },
      broken: ['no-circle-of-folders infra/x', 'no-circle-of-folders infra/y'],
    },
    {
      name: 'folders in a circle through what is below one of them',
      files: {
        'infra/x/b.ts': "import '../y/c.ts'",
        'infra/y/c.ts': '',
        'infra/y/in/d.ts': "import '../../x/e.ts'",
        'infra/x/e.ts': '',
      },
      broken: ['no-circle-of-folders infra/x', 'no-circle-of-folders infra/y'],
    },
    {
      name: 'folders of a room in a circle',
      files: {
        'services/api/a/b.ts': "import '../c/d.ts'",
        'services/api/c/d.ts': '',
        'services/api/c/e.ts': "import '../a/f.ts'",
        'services/api/a/f.ts': '',
      },
      broken: ['no-circle-of-folders services/api/a', 'no-circle-of-folders services/api/c'],
    },
    {
      name: 'a folder that uses the room around it',
      files: { 'infra/x/b.ts': "import './in/c.ts'", 'infra/x/in/c.ts': "import '../d.ts'", 'infra/x/d.ts': '' },
      broken: [],
    },
    {
      name: 'code that reads the environment and is no entry point',
      files: { 'infra/x/b.ts': "import '../runtime/environment.ts'", 'infra/runtime/environment.ts': '' },
      broken: ['environment-is-handed-down infra/x/b.ts'],
    },
    {
      name: 'the command line that reads the environment',
      files: {
        'services/cli/command-line.ts': "import '#infra/runtime/environment.ts'",
        'infra/runtime/environment.ts': '',
      },
      broken: [],
    },
    {
      name: 'the composition root that uses what services and views offer it',
      files: {
        'services/cli/b.ts':
          "import '#services/ingest/commands.ts'\nimport '#streams/views.ts'\nimport '#streams/sales/view.ts'",
        'services/ingest/commands.ts': '',
        'streams/views.ts': '',
        'streams/sales/view.ts': '',
      },
      broken: [],
    },
    {
      name: 'code that imports a check',
      files: { 'infra/x/b.ts': "import '../checks/c.ts'", 'infra/checks/c.ts': '' },
      broken: ['only-tests-know-checks infra/x/b.ts'],
    },
  ]
  for (const { name, files, broken } of cases)
    it(`${broken.length === 0 ? 'let pass' : 'refuse'} ${name}`, async () => {
      expect((await rulesBrokenBy({ ...target, ...files })).sort()).to.deep.equal(broken)
    })
})
