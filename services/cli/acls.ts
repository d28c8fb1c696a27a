/**
 * The rights that each role needs and no more, derived from the catalogue of topics and the roles.
 *
 * A role writes the topics whose writer it is and reads those that name it a reader. A role that reads in a group has its group and
 * may write dead letters and unresolved names; one that computes a view of others sees how far their groups are. `setup` creates topics, `cli` is the user of the tools.
 */
import { type Acl, type AclOperation, applyAcls } from '#infra/kafka/admin.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { allTopics } from '#schemas/topics.ts'
import { VIEWS } from '#streams/views.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'
import { type CommandContext, write } from './output.ts'
import { readingGroups } from './reading-groups.ts'
import { isRoleThat } from './roles.ts'

/** Written by each role that has a record that it cannot apply. */
const RUNNER = 'runner'
const TOOLS = 'cli'
const SET_UP = 'setup'
const CLUSTER = 'kafka-cluster'

/** The principals: each role that reaches the log, the set-up step and the tools. */
export const aclRoles: readonly string[] = [
  ...new Set(allTopics.flatMap(({ writer, readers }) => [writer, ...readers])),
].filter(role => role !== RUNNER)

const rights = (resource: Acl['resource'], name: string, ...operations: AclOperation[]): Omit<Acl, 'principal'>[] =>
  operations.map(operation => ({ resource, name, isPrefix: resource === 'TRANSACTIONAL_ID', operation }))

/** The rights of a role in a namespace, for a principal such as `User:book`. */
export function aclsOf(role: string, namespace: string, principal: string): Acl[] {
  const sources = Object.keys(VIEWS.find(({ name }) => name === role)?.computedOf ?? {})
  const inGroup = readingGroups().some(({ group }) => group === role)
  const neededRights = [
    ...allTopics.flatMap(({ name, writer, readers }) => {
      const isWriter = writer === role || (writer === RUNNER && inGroup)
      const isReader = readers.includes(role) || role === TOOLS || (isWriter && role === SET_UP)
      return [
        ...(isWriter ? rights('TOPIC', namespace + name, 'WRITE') : []),
        ...(isReader ? rights('TOPIC', namespace + name, 'READ') : []),
        ...(role === TOOLS ? rights('TOPIC', namespace + name, 'DESCRIBE_CONFIGS') : []),
        ...(role === SET_UP
          ? rights('TOPIC', namespace + name, 'CREATE', 'DESCRIBE', 'DESCRIBE_CONFIGS', 'ALTER_CONFIGS')
          : []),
      ]
    }),
    ...(inGroup || isRoleThat('isDivided', role) ? rights('GROUP', namespace + role, 'READ') : []),
    ...sources.flatMap(group => rights('GROUP', namespace + group, 'DESCRIBE')),
    ...(isRoleThat('isTransactional', role) ? rights('TRANSACTIONAL_ID', `${namespace}${role}-`, 'WRITE') : []),
    ...(role === TOOLS
      ? [
          ...readingGroups().flatMap(({ group }) => rights('GROUP', namespace + group, 'DESCRIBE')),
          ...rights('CLUSTER', CLUSTER, 'DESCRIBE'),
        ]
      : []),
  ]
  const distinct = new Map(neededRights.map(right => [JSON.stringify(right), { principal, ...right }]))
  return [...distinct.values()]
}

/**
 * `marketlog acls`: prints a JSON line for each right, and grants exactly these in the cluster on request. In the name of a principal
 * `{role}` is replaced by the role's.
 */
export async function showAcls(
  { config, log, output }: CommandContext,
  options: { roles: readonly string[]; principal: string; apply: boolean },
): Promise<void> {
  const unknown = options.roles.filter(role => !aclRoles.includes(role))
  if (unknown.length > 0)
    throw new CommandFailure(
      `no role ${unknown.join(', ')} reaches the log. There are ${aclRoles.join(', ')}`,
      exitCodes.usage,
    )
  const roles = options.roles.length > 0 ? options.roles : aclRoles
  const acls = roles.flatMap(role => aclsOf(role, config.namespace, options.principal.replaceAll('{role}', role)))
  if (options.apply) await applyAcls(connectKafka({ config, role: 'acls', log }), acls)
  for (const { principal, resource, name, isPrefix, operation } of acls) {
    const right = { principal, operation, resource, pattern: isPrefix ? 'PREFIXED' : 'LITERAL', name }
    await write(output, `${JSON.stringify(right)}\n`)
  }
}
