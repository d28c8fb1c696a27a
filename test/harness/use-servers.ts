/** The namespace is set up by the platform's own step, and removed after the file's last test. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import type { ServerName } from '#infra/stack/native-start.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { Reached } from './own-redis.ts'
import { type OwnServer, type OwnServerOptions, openOwnServer } from './own-server.ts'
import { removeNamespace } from './remove-namespace.ts'
import { smallCatalog } from './small-catalog.ts'
import { newEnvironment, providePlatform, readTestEnvironment, type TestPlatform } from './test-platform.ts'
import { serversEndWithRun, testServers } from './test-servers.ts'

/** A platform on the servers of the run, some of which may be its own. */
export interface ServersPlatform extends TestPlatform {
  own(name: ServerName): OwnServer
}

type Own = OwnServerOptions | (() => Promise<OwnServer>)

/**
 * Gives the surrounding `describe` servers and a namespace. With `setUp: false` the namespace stays
 * empty: no topics, schemas, tables or catalog. Servers named in `own` are started for it alone, so that it may
 * harm them; a function starts one that is more than a plain server. `redis` starts one of another kind in place of the run's.
 * The catalog has a few hundred items (small-catalog.ts), with `catalog: 'whole'` all, with a function those that it gives.
 */
export function useServers(
  options: {
    setUp?: boolean
    own?: Partial<Record<ServerName, Own>>
    redis?: () => Promise<Reached>
    catalog?: 'whole' | (() => CatalogItem[])
  } = {},
): ServersPlatform {
  const own = new Map<ServerName, OwnServer>()
  const { platform } = providePlatform(async onEnd => {
    const shared = await testServers()
    for (const [name, wanted] of Object.entries(options.own ?? {}) as [ServerName, Own][]) {
      const server = await (typeof wanted === 'function' ? wanted() : openOwnServer(name, wanted))
      onEnd(() => server.close())
      own.set(name, server)
    }
    const redis = await options.redis?.()
    if (redis) onEnd(() => redis.close())
    const addresses = Object.assign({ ...shared }, ...[...own.values()].map(server => server.addresses))
    const stateDir = mkdtempSync(join(tmpdir(), 'marketlog-state-'))
    const opened = readTestEnvironment({
      ...newEnvironment(addresses, { initial: 't', stateDir }),
      ...redis?.variables,
      MARKETLOG_RUN_DIR: join(stateDir, 'run'),
      MARKETLOG_SECRET_KEY: newSecretKey(),
    })
    onEnd(() => rmSync(stateDir, { recursive: true, force: true }))
    onEnd(async () => removeNamespace(opened.config, opened.log, { keepStores: await serversEndWithRun() }))
    if (options.setUp === false) return opened
    // It loads every room's set-up, which a file that takes an empty namespace need not wait for.
    const { setUp } = await import('#services/cli/set-up.ts')
    await setUp(
      opened.config,
      opened.log,
      options.catalog === 'whole' ? {} : { items: options.catalog ?? smallCatalog },
    )
    return opened
  })
  return Object.assign(platform, {
    own(name: ServerName) {
      const server = own.get(name)
      if (server === undefined) throw new Error(`${name} is shared with others`)
      return server
    },
  })
}
