/**
 * Roles inside the test's process, behind one HTTP host, as `marketlog run` starts them. A role that calls `fail` fails the test that waits
 * for it to be ready, and every `stop`, unless the failure was announced; so does an announced failure that did not happen.
 */
import { assert } from 'chai'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import { clientsOf, openHttpHost } from '#infra/runtime/http-host.ts'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { RoleContext, RunningRole, StartRole } from '#infra/runtime/role.ts'
import { loadRole, type RoleName } from '#services/cli/roles.ts'
import { openShared } from '#services/cli/run-roles.ts'
import { eventually } from './eventually.ts'

export type StartedRoles = Awaited<ReturnType<typeof startRoles>>

/** Starts roles, by name or by their room's `start`, one after the other; when one cannot start, those before it stop. */
export async function startRoles(
  roles: readonly (RoleName | StartRole)[],
  options: { config: PlatformConfig; log: Log },
) {
  const { config, log } = options
  const connect = (role: string) => connectKafka({ config, role, log })
  const metrics = openMetrics()
  const http = openHttpHost({ host: '127.0.0.1', port: 0, metrics, clients: clientsOf(config) })
  const { port, operatorPort } = await http.listen()
  const baseUrl = `http://127.0.0.1:${port}`
  const ending = new AbortController()
  const failures: Error[] = []
  const announced: RegExp[] = []
  const running: RunningRole[] = []
  const ids = openShared(async () => openTopicIds(connect('topic-ids')))
  const fail = (error: Error): void => void failures.push(error)
  const catalog = openShared(async () => openCatalogReader(connect('catalog'), { ids: await ids.get(), onLost: fail }))
  let stopped: Promise<void> | undefined

  const context: RoleContext = {
    config: { ...config, port, baseUrl },
    log,
    metrics,
    http,
    fail,
    signal: ending.signal,
    stopped: () => undefined,
    topicIds: ids.get,
    catalog: catalog.get,
  }
  const stopAll = async () => {
    ending.abort()
    for (const role of running.reverse()) await role.stop()
    await catalog.close()
    await ids.close()
    await http.close()
    judgeFailures(failures, announced)
  }
  const stop = () => {
    stopped ??= stopAll()
    return stopped
  }
  try {
    for (const role of roles) {
      const start = typeof role === 'string' ? await loadRole(role) : role
      running.push(await start(context))
    }
  } catch (error) {
    await stop().catch(() => undefined)
    throw error
  }
  for (const role of running) http.watch(role.name, () => role.ready())
  return {
    baseUrl,
    metrics,
    operatorUrl: `http://127.0.0.1:${operatorPort}`,
    failures: failures as readonly Error[],
    ready: async (limitMs?: number): Promise<void> => {
      for (const role of running) {
        const isReady = async () => {
          assert.equal(await role.ready(), undefined)
          return true
        }
        await eventually(isReady, `${role.name} to be ready`, limitMs)
        if (failures[0]) throw failures[0]
      }
    },
    /** Announces a failure; `reason` matches its message. */
    expectFailure: (reason: RegExp) => void announced.push(reason),
    /** Rejects when a failure was not announced, or an announced one did not happen. */
    stop,
  }
}

function judgeFailures(failures: readonly Error[], announced: readonly RegExp[]): void {
  const unannounced = failures.find(({ message }) => !announced.some(reason => reason.test(message)))
  if (unannounced) throw new Error(`a role failed unannounced: ${unannounced.message}`, { cause: unannounced })
  const missing = announced.find(reason => !failures.some(({ message }) => reason.test(message)))
  if (missing) throw new Error(`no role failed for ${missing}, which was announced`)
}
