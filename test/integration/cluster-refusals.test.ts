/**
 * What runs and is then refused: a right withdrawn from a reader without a group ends its role as at a start, and one that is back soon does not.
 *
 * Such readers took a refusal for a broker that is away, and tried for ten minutes; the catalog's reader ended with a line, and its role
 * went on with what it had.
 */
import { join } from 'node:path'
import { expect } from 'chai'
import { applyAcls } from '#infra/kafka/acls.ts'
import {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  ResourcePatternTypes,
} from '#infra/kafka/client/kafkajs.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { aclsOf } from '#services/cli/role-acls.ts'
import { keepRunning } from '#services/cli/role-process.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { prepareRunDirectory, runDirectory } from '#services/cli/run-directory.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import { useCluster } from '#test/harness/use-cluster.ts'

const READER = 'reader'
const PASSWORD = 'password-of-reader'
const END_LIMIT_MS = 30_000
const READY_LIMIT_MS = 60_000
const UNAVAILABLE = 69
const ROLES: readonly RoleName[] = ['feed', 'alert-triggers']

describe('a reader that is refused while it runs', () => {
  const platform = useCluster({ users: { [READER]: PASSWORD }, setUp: true })
  const asReader = { KAFKA_USER: READER, KAFKA_PASSWORD: PASSWORD, KAFKA_PASSWORD_FILE: '' }
  let admin: ReturnType<ReturnType<KafkaConnection['newClient']>['admin']>

  before(async () => {
    const kafka = platform.connect('test')
    for (const role of ROLES) await applyAcls(kafka, aclsOf(role, kafka.namespace, `User:${READER}`))
    admin = kafka.newClient('admin').admin()
    await admin.connect()
  })
  after(() => admin.disconnect())

  /** A right that is denied outweighs all that are given. */
  const denied = (key: TopicKey) => ({
    resourceType: AclResourceTypes.TOPIC,
    resourceName: platform.connect('test').topicName(key),
    principal: `User:${READER}`,
    host: '*',
    operation: AclOperationTypes.READ,
    permissionType: AclPermissionTypes.DENY,
  })
  const withdraw = (key: TopicKey) =>
    admin.createAcls({ acl: [{ ...denied(key), resourcePatternType: ResourcePatternTypes.LITERAL }] })
  const giveBack = (key: TopicKey) =>
    admin.deleteAcls({ filters: [{ ...denied(key), resourcePatternType: ResourcePatternTypes.LITERAL }] })
  async function start(role: RoleName) {
    const spawned = await platform.spawnRole(role, { ...platform.environment, ...asReader, LOG_LEVEL: 'info' })
    const operatorUrl = await spawned.operatorUrl()
    const isReady = async () => (await fetch(`${operatorUrl}/readyz`)).status === 200
    await eventually(isReady, `${role} to be ready`)
    return { spawned, isReady }
  }

  const cases: { role: RoleName; topic: TopicKey; what: string }[] = [
    { role: 'feed', topic: 'bookChanges', what: 'a follower' },
    { role: 'feed', topic: 'catalog', what: "the catalog's reader" },
    { role: 'alert-triggers', topic: 'alertRules', what: "the rules' reader" },
    { role: 'alert-triggers', topic: 'fx', what: "the rates' reader" },
  ]
  for (const { role, topic, what } of cases) {
    it(`ends ${role} with one line and exit code 69 when ${what} is refused`, async () => {
      const { spawned } = await start(role)
      spawned.expectEnd(/cannot go on: Kafka refuses access: .*marketlog acls/)
      await withdraw(topic)
      try {
        const { code } = await within(spawned.ended, `${role} to end`)
        expect(code).to.equal(UNAVAILABLE)
        const fatal = spawned.lines().filter(line => /"level":"(error|fatal)"/.test(line))
        expect(fatal).to.have.length(1)
      } finally {
        await giveBack(topic)
      }
    })
  }

  it('goes on when the right is back within seconds', async () => {
    const { spawned, isReady } = await start('feed')
    await withdraw('bookChanges')
    await eventually(async () => !(await isReady()), 'the feed to be refused')
    await giveBack('bookChanges')
    await eventually(isReady, 'the feed to be ready again')
    await spawned.stop()
  })

  it('is said once by the supervisor, which tries again with pauses until the right is back', async () => {
    const directory = runDirectory({ MARKETLOG_RUN_DIR: join(platform.folder, 'run-of-test') })
    prepareRunDirectory(directory)
    const lines: string[] = []
    const givenUp: Error[] = []
    const environment = { PATH: process.env.PATH ?? '', ...platform.environment, ...asReader, LOG_LEVEL: 'info' }
    const kept = keepRunning({
      group: { name: 'history', roles: ['feed'] },
      directory,
      environment,
      onListening: () => undefined,
      report: line => lines.push(line),
      onGivenUp: error => givenUp.push(error),
    })
    try {
      await eventually(() => kept.ports() !== undefined, 'the feed to listen')
      await withdraw('bookChanges')
      await eventually(() => kept.ports() === undefined && lines.length > 0, 'the feed to end')
      // At its second start it has not read anything yet.
      await eventually(() => kept.restarts() > 1, 'a second try', READY_LIMIT_MS + END_LIMIT_MS)
      await giveBack('bookChanges')
      await eventually(() => kept.ports() !== undefined, 'the feed to listen again')
    } finally {
      await giveBack('bookChanges')
      await kept.stop()
    }
    expect(lines).to.have.length(1)
    expect(lines[0]).to.match(/^history is refused \(exit code 69\).*Kafka refuses access.*every 30 s$/s)
    expect(givenUp).to.deep.equal([])
  })

  it('is given up at once by the supervisor when it never ran, where its process used to hang', async () => {
    const directory = runDirectory({ MARKETLOG_RUN_DIR: join(platform.folder, 'refused-run') })
    prepareRunDirectory(directory)
    const environment = { PATH: process.env.PATH ?? '', ...platform.environment, ...asReader, KAFKA_PASSWORD: 'wrong' }
    const givenUp = Promise.withResolvers<Error>()
    const kept = keepRunning({
      group: { name: 'history', roles: ['feed'] },
      directory,
      environment,
      onListening: () => undefined,
      report: line => givenUp.reject(new Error(line)),
      onGivenUp: givenUp.resolve,
    })
    const waiting = within(givenUp.promise, 'the supervisor to give up')
    const error = await waiting.finally(() => kept.stop())
    expect(error).to.include({ exitCode: UNAVAILABLE })
    expect(error.message).to.contain('Kafka refuses the credentials')
    expect(kept.restarts()).to.equal(0)
  })
})
