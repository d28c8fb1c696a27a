/**
 * The architecture as a failing build: which room may import which, and who may load a client library.
 *
 * The rules are those of README.md, "Where things are". swc parses, because TypeScript 7 has no JavaScript API.
 * Type-only, dynamic and re-exporting imports count like any other.
 */

// dependency-cruiser asks swc for TypeScript without JSX, whatever the file is called.
const swc = require('@swc/core')
const { parseFileSync } = swc
swc.parseFileSync = (file, options) => parseFileSync(file, { ...options, tsx: file.endsWith('.tsx') })

/** Matches packages by name, installed or not. */
const packages = names => `(^|node_modules/)(${names})(/|$)`

/** Client libraries, and the only rooms that load them. */
const CLIENT_LIBRARIES = {
  'kafkajs|@kafkajs/[^/]+': 'infra/kafka',
  avsc: 'infra/(kafka|checks)',
  'ioredis|rate-limiter-flexible': 'infra/redis',
  '@clickhouse/[^/]+': 'infra/clickhouse',
  'pg|node-pg-migrate|graphile-worker': 'infra/postgres',
  nodemailer: 'infra/mail',
  'ipaddr\\.js': 'infra/(outbound|runtime)|test/fixtures',
  'openid-client|oauth4webapi|jose': 'infra/sign-in',
  'prom-client|pino': 'infra/runtime',
  'chdb|ffi-rs': 'infra/stack',
  'hyparquet-writer': 'infra/parquet',
  busboy: 'infra/http',
  'csv-parse|csv-stringify': 'services/(portfolios|ingest)|infra/config',
  'marked|highlight\\.js': 'services/api',
  express: 'infra/http|services/(api|feed)|test/bench',
  testcontainers: 'test/harness',
  'react|react-dom|@tanstack/[^/]+|lightweight-charts|uplot': 'services/console/src',
  vite: 'services/console/build',
}

/** Others use a service by these alone: of the whole service, or of a folder of it. */
const COMMANDS_AND_READERS = [
  '^services/[^/]+/(commands|reader)\\.ts$',
  '^services/[^/]+/[^/]+/(commands|reader)\\.ts$',
]

/** The one file of a view that others may load. */
const READERS = '^streams/[^/]+/reader\\.ts$'

const RULES = [
  {
    name: 'schemas-are-pure',
    comment: 'schemas/ imports schemas/ and zod alone: no I/O, clock or environment',
    from: { path: '^schemas/' },
    to: { pathNot: ['^schemas/', packages('zod')] },
  },
  {
    name: 'infra-knows-nobody',
    comment: 'infra/ imports schemas/ and infra/ alone',
    from: { path: '^infra/' },
    to: { path: '^(streams|services|test)/' },
  },
  {
    name: 'streams-know-no-service',
    comment: 'a stream imports schemas/, infra/, streams/runner and the readers of views alone',
    from: { path: '^streams/' },
    to: { path: '^(services|test)/' },
  },
  {
    name: 'streams-know-no-stream',
    comment:
      'a stream imports of another its reader.ts alone; what they share is in streams/runner, schemas/ or infra/',
    from: { path: '^streams/([^/]+)/' },
    to: { path: '^streams/', pathNot: ['^streams/($1|runner)/', READERS] },
  },
  {
    name: 'runner-knows-no-stream',
    comment: 'the runner imports no stream',
    from: { path: '^streams/runner/' },
    to: { path: '^streams/', pathNot: '^streams/runner/' },
  },
  {
    name: 'services-know-no-service',
    comment:
      'a service imports of another its commands.ts and reader.ts, of a stream its reader.ts, and the runner to commit',
    from: { path: '^services/([^/]+)/', pathNot: '^services/(cli|console)/' },
    to: {
      path: '^(services|streams|test)/',
      pathNot: ['^services/$1/', ...COMMANDS_AND_READERS, READERS, '^streams/runner/'],
    },
  },
  {
    name: 'cli-composes',
    comment: 'services/cli starts roles by main.ts, and knows view.ts of views, commands.ts and reader.ts of services',
    from: { path: '^services/cli/' },
    to: {
      path: '^(services|streams|test)/',
      pathNot: [
        '^services/(cli/|[^/]+/main\\.ts$|[^/]+/[^/]+/main\\.ts$)',
        '^streams/((views|processors)\\.ts$|runner/|[^/]+/(main|view)\\.ts$)',
        ...COMMANDS_AND_READERS,
      ],
    },
  },
  {
    name: 'console-is-a-client',
    comment:
      'the console imports its own files, the TypeScript client, the phases, pictures of the pages, and libraries of a browser',
    from: { path: '^services/console/src/' },
    to: {
      pathNot: [
        '^services/console/src/',
        '^services/clients/typescript/src/marketlog\\.ts$',
        '^schemas/values/phase\\.ts$',
        '^services/api/assets/',
        packages('react|react-dom|@tanstack/[^/]+|lightweight-charts|uplot|trading-signals'),
      ],
    },
  },
  {
    name: 'clients-stand-alone',
    comment: 'a package for users imports its own files, and what its own package.json names',
    from: { path: '^services/clients/([^/]+)/src/' },
    to: { pathNot: ['^services/clients/$1/src/', packages('eventsource-parser')] },
  },
  {
    name: 'only-tests-know-checks',
    comment: 'infra/checks is a build step',
    from: { pathNot: '^(infra/checks|test)/' },
    to: { path: '^infra/checks/' },
  },
  {
    name: 'no-circle-of-files',
    comment: 'put what they share into one file below them',
    from: {},
    to: { circular: true },
  },
  {
    // A folder is all that is below it, so one that imports from the folder around it closes no circle.
    name: 'no-circle-of-folders',
    comment: 'folders that import each other are one room',
    scope: 'folder',
    from: {},
    to: { circular: true },
  },
  {
    name: 'environment-is-handed-down',
    comment: 'the environment is read once, by the entry point of a process, and handed down as values',
    from: { pathNot: ['^test/', '^services/cli/command-line\\.ts$', '^infra/stack/clickhouse-engine\\.ts$'] },
    to: { path: '^infra/runtime/environment\\.ts$' },
  },
  {
    name: 'no-development-dependency',
    comment: 'code that runs in production imports a development dependency',
    from: {
      path: '^(schemas|infra|streams|services)/',
      pathNot: '^(infra/checks|(infra/config|services/console)/build)/',
    },
    to: { dependencyTypes: ['npm-dev'] },
  },
  {
    name: 'kafkajs-insides-stay-with-its-corrections',
    comment:
      'what kafkajs does not export is loaded by infra/kafka/client alone; tests hold a correction against its original',
    from: { pathNot: '^(infra/kafka/client|test)/' },
    to: { path: [packages('kafkajs/src'), '^infra/kafka/client/internals\\.ts$'] },
  },
  {
    name: 'names-say-something',
    comment: 'the file or folder is named after the one thing that it holds',
    from: {},
    to: { path: '/(utils?|helpers?|common|misc|types|index)[./]', pathNot: 'node_modules/' },
  },
  ...Object.entries(CLIENT_LIBRARIES).map(([names, rooms]) => ({
    name: `client-library-${names.split('|')[0]}`,
    comment: `only ${rooms} may import it`,
    from: { pathNot: `^(${rooms})/` },
    to: { path: packages(names) },
  })),
]

module.exports = {
  forbidden: RULES.map(rule => ({ severity: 'error', ...rule })),
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^services/.*/dist/' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
}
