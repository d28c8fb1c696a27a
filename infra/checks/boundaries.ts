/**
 * The architecture as a failing build: which room may import which, and who may load a client library.
 *
 * Reads the source tree through dependency-cruiser, which parses TypeScript with swc because TypeScript 7 has
 * no JavaScript API. Type-only, dynamic and re-exporting imports count like any other. The rules
 * are those of README.md, "Where things are".
 */
import { cruise, type ICruiseResult, type IRegularForbiddenRuleType } from 'dependency-cruiser'
import type { Finding } from './finding.ts'
import { ROOMS, topLevel } from './source-tree.ts'

/** Matches a package by name, installed or not. */
const packages = (...names: string[]): string => `(^|node_modules/)(${names.join('|')})(/|$)`

/** A client library, and the only rooms that load it. */
const CLIENT_LIBRARIES: { library: string[]; rooms: string[] }[] = [
  { library: ['kafkajs', '@kafkajs/[^/]+'], rooms: ['infra/kafka'] },
  { library: ['avsc'], rooms: ['infra/kafka', 'infra/checks'] },
  { library: ['ioredis', 'rate-limiter-flexible'], rooms: ['infra/redis'] },
  { library: ['@clickhouse/[^/]+'], rooms: ['infra/clickhouse'] },
  { library: ['pg', 'node-pg-migrate', 'graphile-worker'], rooms: ['infra/postgres'] },
  { library: ['nodemailer'], rooms: ['infra/mail'] },
  { library: ['ipaddr\\.js'], rooms: ['infra/outbound', 'test/fixtures'] },
  { library: ['openid-client', 'oauth4webapi', 'jose'], rooms: ['infra/sign-in'] },
  { library: ['prom-client', 'pino'], rooms: ['infra/runtime'] },
  { library: ['chdb', 'ffi-rs'], rooms: ['infra/stack'] },
  { library: ['hyparquet-writer'], rooms: ['infra/parquet'] },
  { library: ['busboy'], rooms: ['infra/http'] },
  { library: ['csv-parse', 'csv-stringify'], rooms: ['services/portfolios', 'services/ingest', 'infra/config'] },
  { library: ['express'], rooms: ['infra/http', 'services/api', 'services/feed', 'test/bench'] },
  { library: ['dependency-cruiser', '@swc/core'], rooms: ['infra/checks'] },
  { library: ['testcontainers'], rooms: ['test/harness'] },
]

/** What a service lets others ask and read: of the whole service, or of a folder of it. */
const COMMANDS_AND_READERS = [
  '^services/[^/]+/(commands|reader)\\.ts$',
  '^services/[^/]+/[^/]+/(commands|reader)\\.ts$',
]

/** What starts a role; a service may start one in each folder. */
const MAINS = ['^(services|streams)/[^/]+/main\\.ts$', '^services/[^/]+/[^/]+/main\\.ts$']

/** Entry points of processes: the command line, the servers of development, and the process of the ClickHouse engine. */
const READERS_OF_ENVIRONMENT = [
  'services/cli/command-line.ts',
  'infra/stack/main.ts',
  'infra/stack/clickhouse-engine.ts',
]

/** The one file of a view that others may load: what they may ask of it. */
const READERS = '^streams/[^/]+/reader\\.ts$'

const rule = (
  name: string,
  comment: string,
  from: IRegularForbiddenRuleType['from'],
  to: IRegularForbiddenRuleType['to'],
): IRegularForbiddenRuleType => ({ name, comment, severity: 'error', from, to })

const RULES: IRegularForbiddenRuleType[] = [
  rule(
    'schemas-are-pure',
    'schemas/ imports schemas/ and zod alone: no I/O, clock or environment',
    { path: '^schemas/' },
    { pathNot: ['^schemas/', packages('zod')] },
  ),
  rule(
    'infra-knows-nobody',
    'infra/ imports schemas/ and infra/ alone',
    { path: '^infra/' },
    { path: '^(streams|services|test)/' },
  ),
  rule(
    'streams-know-no-service',
    'a stream imports schemas/, infra/, streams/runner and the readers of views alone',
    { path: '^streams/' },
    { path: '^(services|test)/' },
  ),
  rule(
    'streams-know-no-stream',
    'a stream imports of another stream its reader.ts alone; what they share belongs to streams/runner, schemas/ or infra/',
    { path: '^streams/([^/]+)/' },
    { path: '^streams/', pathNot: ['^streams/($1|runner)/', READERS] },
  ),
  rule(
    'runner-knows-no-stream',
    'the runner imports no stream',
    { path: '^streams/runner/' },
    { path: '^streams/', pathNot: '^streams/runner/' },
  ),
  rule(
    'verify-folds-by-itself',
    'verify.ts derives a view by means of its own: it shares neither the fold nor the writes and reads of the role',
    { path: '^streams/([^/]+)/verify\\.ts$' },
    { path: '^streams/$1/(step|sink|reader)\\.ts$' },
  ),
  rule(
    'services-know-no-service',
    'a service imports of another one its commands.ts and reader.ts alone, and of a stream its reader.ts. One that reads with a group does so by streams/runner, which alone commits',
    { path: '^services/([^/]+)/', pathNot: '^services/cli/' },
    {
      path: '^(services|streams|test)/',
      pathNot: ['^services/$1/', ...COMMANDS_AND_READERS, READERS, '^streams/runner/'],
    },
  ),
  rule(
    'cli-composes',
    'services/cli starts roles by their main.ts, and knows of views their view.ts and of services their commands.ts and reader.ts',
    { path: '^services/cli/' },
    {
      path: '^(services|streams|test)/',
      pathNot: [
        '^services/cli/',
        '^streams/((views|processors)\\.ts$|runner/|[^/]+/view\\.ts$)',
        ...MAINS,
        ...COMMANDS_AND_READERS,
      ],
    },
  ),
  rule(
    'only-tests-know-checks',
    'infra/checks is a build step',
    { pathNot: '^(infra/checks|test)/' },
    { path: '^infra/checks/' },
  ),
  rule('no-circle-of-files', 'put what they share into one file below them', {}, { circular: true }),
  {
    // A folder is all that is below it, so one that imports from the folder around it closes no circle.
    ...rule('no-circle-of-folders', 'folders that import each other are one room', {}, { circular: true }),
    scope: 'folder',
  },
  rule(
    'environment-is-handed-down',
    'the environment is read once, by the entry point of a process, and handed down as values',
    { pathNot: ['^test/', ...READERS_OF_ENVIRONMENT.map(literal)] },
    { path: literal('infra/runtime/environment.ts') },
  ),
  rule(
    'resolves',
    'the import leads nowhere: a file that does not exist or a package that package.json does not name',
    {},
    { couldNotResolve: true },
  ),
  rule(
    'no-development-dependency',
    'code that runs in production imports a development dependency',
    {
      path: '^(schemas|infra|streams|services)/',
      pathNot: ['^infra/checks/', '^infra/config/build/'],
    },
    { dependencyTypes: ['npm-dev'] },
  ),
  rule(
    'kafkajs-insides-stay-with-its-corrections',
    'what kafkajs does not export is touched in infra/kafka/client alone, which loads its files by internals.ts; tests hold a correction against its original',
    { pathNot: ['^infra/kafka/client/', '^test/', '^node_modules/'] },
    { path: [packages('kafkajs/src'), literal('infra/kafka/client/internals.ts')] },
  ),
  ...CLIENT_LIBRARIES.map(({ library, rooms }) =>
    rule(
      `client-library-${library[0]}`,
      `${library.join(', ')}: only ${rooms.join(', ')} may import it`,
      { pathNot: [...rooms.map(room => `^${room}/`), '^node_modules/'] },
      { path: packages(...library) },
    ),
  ),
]

function literal(path: string): string {
  return `^${path.replaceAll('.', '\\.')}$`
}

/** Every import of a tree that breaks a rule. */
export async function checkBoundaries(root: string): Promise<Finding[]> {
  const rooms = topLevel(root).filter(name => (ROOMS as readonly string[]).includes(name))
  const { output } = await cruise(
    rooms,
    {
      baseDir: root,
      parser: 'swc',
      tsPreCompilationDeps: true,
      validate: true,
      ruleSet: { forbidden: RULES },
      doNotFollow: { path: 'node_modules' },
    },
    { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default', 'types'] },
  )
  if (typeof output === 'string') throw new Error(`dependency-cruiser answered with text: ${output}`)
  return describe(output)
}

function describe(result: ICruiseResult): Finding[] {
  const comments = new Map(RULES.map(({ name, comment }) => [name, comment ?? '']))
  return result.summary.violations.map(({ from, to, rule: broken, cycle }) => ({
    file: from,
    rule: broken.name,
    detail: `imports ${cycle ? cycle.map(step => step.name).join(' -> ') : to} (${comments.get(broken.name)})`,
  }))
}
