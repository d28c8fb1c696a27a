/**
 * A platform on three brokers behind proxies, with TLS and credentials everywhere: Postgres and Redis are the file's own; ClickHouse and the
 * registry are those of the run, behind proxies that speak TLS, of which the registry's asks for credentials. The environment holds the
 * administrator's credentials.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { ROLE_NAMES } from '#services/cli/roles.ts'
import { signCertificate } from './certificates.ts'
import { listen } from './listen.ts'
import { type OwnCluster, openOwnCluster } from './own-cluster.ts'
import { openOwnRedis } from './own-redis.ts'
import { openOwnServer } from './own-server.ts'
import { removeNamespace } from './remove-namespace.ts'
import {
  newEnvironment,
  type OnEnd,
  type OpenedPlatform,
  providePlatform,
  readTestEnvironment,
  type TestPlatform,
  withLateMembers,
} from './test-platform.ts'
import { testServers } from './test-servers.ts'
import { openTlsProxy } from './tls-proxy.ts'

const REGISTRY_USER = 'registry-reader'
export const REGISTRY_TOKEN = 'token-of-the-registry'

export interface TestCluster extends TestPlatform {
  readonly cluster: OwnCluster
  readonly registry: Awaited<ReturnType<typeof openRegistryProxy>>
  readonly folder: string
}

export interface TestClusterOptions {
  /** Beside the administrator, without any right. */
  users?: Record<string, string>
  setUp?: boolean
  /** Each role that is started comes as a user of its own, with the rights that `marketlog acls` gives it; needs `setUp`. */
  ownRights?: boolean
}

export function useCluster(options: TestClusterOptions = {}): TestCluster {
  const roleUsers = options.ownRights ? newUsers(ROLE_NAMES) : {}
  const { platform, opened } = providePlatform(async onEnd => {
    const cluster = await openCluster({ ...options.users, ...roleUsers }, onEnd)
    const { config, log } = cluster
    if (options.setUp) {
      const { setUp } = await import('#services/cli/set-up.ts')
      await setUp(config, log)
      const registry = { ...config.registry, ca: undefined, basic: undefined }
      const servers = { ...config.servers, schemaRegistry: (await testServers()).schemaRegistry }
      onEnd(() => removeNamespace({ ...config, servers, registry }, log))
      if (options.ownRights) await giveRights(cluster)
    }
    const roleEnvironment = (role: string): Record<string, string> => {
      const password = roleUsers[role]
      return password === undefined ? {} : { ...WITHOUT_FILE, KAFKA_USER: role, KAFKA_PASSWORD: password }
    }
    return { ...cluster, roleEnvironment }
  })
  return withLateMembers(platform, {
    cluster: () => opened().cluster,
    registry: () => opened().registry,
    folder: () => opened().folder,
  })
}

const WITHOUT_FILE = { KAFKA_PASSWORD_FILE: '' }

const newUsers = (names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map(name => [name, randomBytes(12).toString('hex')]))

/** Each role its rights, by the command that gives them in production. */
async function giveRights({ config, log }: OpenedPlatform): Promise<void> {
  const { showAcls } = await import('#services/cli/acls.ts')
  const output = new PassThrough().resume()
  await showAcls({ config, log, output }, { roles: [], principal: 'User:{role}', apply: true })
}

async function openCluster(users: Record<string, string>, onEnd: OnEnd) {
  const addresses = await testServers()
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-cluster-'))
  onEnd(() => rmSync(folder, { recursive: true, force: true }))
  const cluster = await openOwnCluster({ users })
  onEnd(() => cluster.close())
  const context = { environment: process.env, signal: new AbortController().signal }
  const pem = await signCertificate(context, cluster.tlsDir, { name: 'registry', days: 1 })
  const password = randomBytes(12).toString('hex')
  const accepted = [basicOf(REGISTRY_USER, password), `Bearer ${REGISTRY_TOKEN}`]
  const registry = await openRegistryProxy(addresses.schemaRegistry, pem, accepted)
  onEnd(() => registry.close())
  const passwordFile = join(folder, 'registry-password')
  writeFileSync(passwordFile, `${password}\n`)
  const tls = { ...pem, ca: cluster.access.KAFKA_TLS_CA }
  const postgres = await openOwnServer('postgres', { tls })
  onEnd(() => postgres.close())
  const redis = await openOwnRedis()
  onEnd(() => redis.close())
  const clickhouse = await openTlsProxy(addresses.clickhouse, pem)
  onEnd(() => clickhouse.close())
  const own = {
    ...addresses,
    ...postgres.addresses,
    kafka: cluster.addresses,
    schemaRegistry: registry.url,
    clickhouse: clickhouse.urlOf(addresses.clickhouse),
    clickhouseReadOnly: clickhouse.urlOf(addresses.clickhouseReadOnly),
  }
  const opened = readTestEnvironment({
    ...newEnvironment(own, { initial: 't', stateDir: folder }),
    ...cluster.access,
    ...redis.variables,
    SCHEMA_REGISTRY_CA: tls.ca,
    DATABASE_TLS_CA: tls.ca,
    CLICKHOUSE_TLS_CA: tls.ca,
    SCHEMA_REGISTRY_USER: REGISTRY_USER,
    SCHEMA_REGISTRY_PASSWORD_FILE: passwordFile,
    MARKETLOG_RUN_DIR: join(folder, 'run'),
    MARKETLOG_SECRET_KEY: newSecretKey(),
  })
  return { ...opened, cluster, registry, folder }
}

const basicOf = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

/**
 * Opens a proxy before the registry that is as one in production: TLS with a certificate of loopback, and a credential asked of
 * every request, which is handed on without it. It answers nothing itself but 401.
 */
async function openRegistryProxy(
  registry: string,
  pem: { key: string; certificate: string },
  accepted: readonly string[],
) {
  const target = new URL(registry)
  const passed = new Map<string, number>()
  const options = { key: readFileSync(pem.key), cert: readFileSync(pem.certificate) }
  const server = createServer(options, (asked, answer) => {
    const { authorization = '', ...headers } = asked.headers
    if (!accepted.includes(authorization)) {
      answer.writeHead(401, { 'content-type': 'application/json', 'www-authenticate': 'Basic' })
      return void answer.end('{"error_code":40101,"message":"Unauthorized"}')
    }
    const scheme = authorization.split(' ')[0] as string
    passed.set(scheme, (passed.get(scheme) ?? 0) + 1)
    const { hostname, port } = target
    const handed = request(
      { hostname, port, method: asked.method, path: asked.url, headers: { ...headers, host: target.host } },
      received => {
        answer.writeHead(received.statusCode ?? 502, received.headers)
        received.pipe(answer)
      },
    )
    handed.on('error', () => answer.destroy())
    asked.pipe(handed)
  })
  const { port, close } = await listen(server)
  return {
    url: `https://127.0.0.1:${port}${target.pathname}`,
    passed: passed as ReadonlyMap<string, number>,
    close,
  }
}
