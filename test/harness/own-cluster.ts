/**
 * Three brokers of a test file's own, which it may stop, kill, freeze and start again, each behind a proxy that harms its network.
 *
 * Runs natively, through infra/stack, in a data folder of its own under the system's temporary folder. Clients come by SASL_SSL
 * through the proxies, whose ports the brokers advertise; what judges a test reads by the plain listeners, which no proxy
 * harms. Invariant: a broker that is started again has its data and its address; a closed cluster has left no process and no file.
 */
import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KafkaAccess } from '#infra/runtime/config.ts'
import { FIRST_COMPILER_ONLY } from '#infra/stack/java.ts'
import { startNative } from '#infra/stack/native-start.ts'
import { identify, readJson } from '#infra/stack/processes.ts'
import type { StartedServers } from '#infra/stack/running-servers.ts'
import { removeServerData } from '#infra/stack/servers.ts'
import { controlProcess, type OwnProcess } from './own-server.ts'
import { openWireProxy, type WireProxy } from './wire-proxy.ts'

export interface OwnBroker extends Omit<OwnProcess, 'terminate' | 'end'> {
  readonly id: number
  /** The proxy between it and its clients. */
  readonly network: WireProxy
  /** Controlled: leaders move away before it ends. */
  stop(): Promise<void>
  /** Of its process; 0 when it has none. */
  pid(): number
  start(): Promise<void>
  log(): string
}

export interface OwnCluster {
  readonly brokers: readonly OwnBroker[]
  /** Of the proxies, for clients. */
  readonly addresses: string[]
  /** Of the plain listeners: no proxy, no credentials, every right. */
  readonly plain: string[]
  /** The administrator's. */
  readonly access: KafkaAccess
  /** Folder with the authority that may sign further certificates. */
  readonly tlsDir: string
  close(): Promise<void>
}

const IDS = [1, 2, 3]

/** Starts a cluster; `users` come beside the administrator, without any right. */
export async function openOwnCluster(options: { users?: Record<string, string> } = {}): Promise<OwnCluster> {
  const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-own-cluster-'))
  for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part))
  const proxies = await Promise.all(IDS.map(openWireProxy))
  let started: StartedServers | undefined
  const close = async (): Promise<void> => {
    for (const id of IDS) controlOf(started, id).thaw()
    await started?.stop()
    await Promise.all(proxies.map(proxy => proxy.close()))
    await removeServerData(dataDir)
  }
  try {
    started = await startNative(
      {
        dataDir,
        say: () => undefined,
        signal: new AbortController().signal,
        environment: { ...process.env, CLUSTER: String(IDS.length), KAFKA_JVM_PERFORMANCE_OPTS: FIRST_COMPILER_ONLY },
        cluster: { advertisedPorts: proxies.map(({ port }) => port), users: options.users ?? {} },
      },
      ['kafka'],
    )
    const ports = readJson<Record<string, number>>(join(dataDir, 'ports.json')) ?? {}
    for (const [index, proxy] of proxies.entries()) proxy.forwardTo(ports[`kafka-${index + 1}`] as number)
    const { kafka: addresses, kafkaAccess: access } = started.addresses
    if (addresses === undefined || access === undefined) throw new Error('the cluster has no addresses')
    return {
      brokers: proxies.map((proxy, index) => brokerOf(started as StartedServers, index + 1, proxy, dataDir)),
      addresses,
      access,
      close,
      plain: IDS.map(id => `127.0.0.1:${ports[`kafka-${id}-internal`]}`),
      tlsDir: join(dataDir, 'kafka-cluster', 'tls'),
    }
  } catch (error) {
    await close()
    throw error
  }
}

const nameOf = (id: number) => `kafka-${id}` as const

const controlOf = (started: StartedServers | undefined, id: number): OwnProcess =>
  controlProcess(nameOf(id), () => identify(started?.pids[nameOf(id)] ?? 0))

function brokerOf(started: StartedServers, id: number, network: WireProxy, dataDir: string): OwnBroker {
  const { terminate: stop, end, ...control } = controlOf(started, id)
  return {
    ...{ ...control, id, network, stop },
    pid: () => started.pids[nameOf(id)] ?? 0,
    start: () => started.restart(nameOf(id)),
    log: () => readFileSync(join(dataDir, 'logs', `${nameOf(id)}.log`), 'utf8'),
  }
}
