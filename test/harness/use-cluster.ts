/**
 * What a test file calls that owns a cluster: three brokers behind proxies, TLS and credentials everywhere, a namespace of its own.
 *
 * The other servers are those of the run; the registry is behind a proxy that asks for credentials. Files that use it break
 * brokers, so no other file shares them. What it has started has ended after the file's last test.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { readConfig } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { signCertificate } from '#infra/stack/native/kafka-cluster.ts'
import { ROLE_NAMES } from '#services/cli/roles.ts'
import { accessVariables, addressVariables } from '#services/cli/settle-environment.ts'
import { type OwnCluster, openOwnCluster } from './own-cluster.ts'
import { basicOf, openRegistryProxy, type RegistryProxy } from './registry-proxy.ts'
import { removeNamespace } from './remove-namespace.ts'
import { spawnRole } from './spawn-role.ts'
import { testServers } from './test-servers.ts'
import type { TestNamespace } from './use-servers.ts'

const START_LIMIT_MS = 300_000
const REGISTRY_USER = 'registry-reader'
/** The bearer token that the registry's proxy takes. */
export const REGISTRY_TOKEN = 'token-of-the-registry'

/** A test file's cluster; its environment holds the administrator's way in. */
export interface TestCluster extends TestNamespace {
  readonly cluster: OwnCluster
  readonly registry: RegistryProxy
  /** A folder for files of the test. */
  readonly folder: string
  connect(role: string, changes?: Record<string, string>): KafkaConnection
}

/** What a cluster comes with. */
export interface TestClusterOptions {
  /** Beside the administrator, without any right. */
  users?: Record<string, string>
  /** Topics and tables. */
  setUp?: boolean
  /** Each role that is started comes as a user of its own, with the rights that `marketlog acls` gives it; needs `setUp`. */
  ownRights?: boolean
}

/** Gives the surrounding `describe` a cluster. */
export function useCluster(options: TestClusterOptions = {}): TestCluster {
  const roleUsers = options.ownRights ? newUsers(ROLE_NAMES) : {}
  let current: Omit<TestCluster, 'spawnRole'> | undefined
  const undo: (() => unknown)[] = []
  const needed = () => {
    if (current === undefined) throw new Error('the cluster is there from the first before hook on')
    return current
  }
  before('a cluster', async function () {
    this.timeout(START_LIMIT_MS)
    this.runnable().parent?.afterAll('end of the cluster', async function () {
      this.timeout(START_LIMIT_MS)
      const problems: unknown[] = []
      for (const end of undo.reverse()) await (async () => end())().catch(problem => problems.push(problem))
      if (problems.length > 0) throw problems[0]
    })
    current = await openNamespace({ ...options.users, ...roleUsers }, undo)
    if (!options.setUp) return
    const { setUp } = await import('#services/cli/set-up.ts')
    await setUp(current.config, current.log)
    const { config, log } = current
    const registry = { ...config.registry, ca: undefined, basic: undefined }
    const servers = { ...config.servers, schemaRegistry: (await testServers()).schemaRegistry }
    undo.push(() => removeNamespace({ ...config, servers, registry }, log))
    if (options.ownRights) await giveRights(current)
  })
  return {
    get namespace() {
      return needed().namespace
    },
    get cluster() {
      return needed().cluster
    },
    get registry() {
      return needed().registry
    },
    get config() {
      return needed().config
    },
    get environment() {
      return needed().environment
    },
    get log() {
      return needed().log
    },
    get folder() {
      return needed().folder
    },
    connect: (role, changes) => needed().connect(role, changes),
    async spawnRole(role, environment = {}) {
      const password = roleUsers[role]
      const own = password === undefined ? {} : { ...WITHOUT_FILE, KAFKA_USER: role, KAFKA_PASSWORD: password }
      const base = { ...needed().environment, LOG_LEVEL: 'info' }
      const spawned = await spawnRole(role, { ...base, ...own, ...environment })
      undo.push(() => spawned.stop())
      return spawned
    },
  }
}

const WITHOUT_FILE = { KAFKA_PASSWORD_FILE: '' }

const newUsers = (names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map(name => [name, randomBytes(12).toString('hex')]))

/** Each role its rights, by the command that gives them in production. */
async function giveRights({ config, log }: Pick<TestCluster, 'config' | 'log'>): Promise<void> {
  const { showAcls } = await import('#services/cli/acls.ts')
  await showAcls(config, log, { roles: [], principal: 'User:{role}', apply: true }, new PassThrough().resume())
}

async function openNamespace(
  users: Record<string, string>,
  undo: (() => unknown)[],
): Promise<Omit<TestCluster, 'spawnRole'>> {
  const addresses = await testServers()
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-cluster-'))
  undo.push(() => rmSync(folder, { recursive: true, force: true }))
  const cluster = await openOwnCluster({ users })
  undo.push(() => cluster.close())
  const context = { environment: process.env, signal: new AbortController().signal }
  const pem = await signCertificate(context, cluster.tlsDir, { name: 'registry', days: 1 })
  const password = randomBytes(12).toString('hex')
  const accepted = [basicOf(REGISTRY_USER, password), `Bearer ${REGISTRY_TOKEN}`]
  const registry = await openRegistryProxy(addresses.schemaRegistry, pem, accepted)
  undo.push(() => registry.close())
  const passwordFile = join(folder, 'registry-password')
  writeFileSync(passwordFile, `${password}\n`)
  const environment = {
    ...(addressVariables({ ...addresses, kafka: cluster.addresses, schemaRegistry: registry.url }) as Record<
      string,
      string
    >),
    ...accessVariables(cluster.access),
    SCHEMA_REGISTRY_CA: cluster.access.ca,
    SCHEMA_REGISTRY_USER: REGISTRY_USER,
    SCHEMA_REGISTRY_PASSWORD_FILE: passwordFile,
    MARKETLOG_NAMESPACE: `t${randomBytes(4).toString('hex')}.`,
    MARKETLOG_STATE_DIR: folder,
    MARKETLOG_RUN_DIR: join(folder, 'run'),
    ...{ HOST: '127.0.0.1', PORT: '0', MARKET: 'empty', MARKETLOG_SECRET_KEY: newSecretKey() },
    LOG_LEVEL: process.env.LOG_LEVEL ?? 'error',
  }
  const config = readConfig(environment)
  const log = openLog({ level: config.logLevel, name: 'test' })
  const connect: TestCluster['connect'] = (role, changes = {}) =>
    connectKafka({ config: readConfig({ ...environment, ...changes }), role, log })
  return { cluster, registry, namespace: config.namespace, config, environment, log, folder, connect }
}
