/**
 * Rebuilds that are killed, of views whose roles are killed too, while the market goes on: at the end every view equals
 * the log, by verify, and a rebuild that is let live leaves nothing of the others behind.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { rebuild } from '#services/cli/log-tools/rebuild.ts'
import { findingsOf } from '#services/cli/log-tools/verify.ts'
import { STORED_VIEWS } from '#services/cli/log-tools/views.ts'
import { waitForViews } from '#services/cli/wait-for-views.ts'
import { openSmallMarket } from '#test/fixtures/small-market.ts'
import { collectOutput } from '#test/harness/collected-output.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { useServers } from '#test/harness/use-servers.ts'

const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))
const ROLES = 'sales history candles live-view book'
const KILLS = process.env.FAULT === 'long' ? 40 : 8
const ROLE_KILL_EVERY = 4
/** The machine has to carry the roles, the rebuilds and the market. */
const ROUND_EVERY_MS = 150
const START_LIMIT_MS = 60_000
const SETTLE_LIMIT_MS = 120_000
/** From the command's start; it takes about a second until it works. */
const KILL_MS = { from: 900, to: 3_500 }

describe('killed rebuilds', function () {
  this.timeout(600_000)
  const platform = useServers()

  it(`leave every view whole: ${KILLS} kills of rebuilds, with roles killed in between`, async () => {
    const { config, log, environment } = platform
    const random = seededRandom('killed rebuilds')
    const market = await openSmallMarket(connectKafka({ config, role: 'ingest', log }))
    let isOver = false
    const load = (async () => {
      for (; !isOver; await pause(ROUND_EVERY_MS)) await market.publishRound()
    })()
    let roles: SpawnedRole = await platform.spawnRole(ROLES)
    await roles.baseUrl(START_LIMIT_MS)
    const ended = { killed: 0, done: 0 }
    for (let kill = 0; kill < KILLS; kill++) {
      const view = STORED_VIEWS[kill % STORED_VIEWS.length] ?? 'history'
      const env = { PATH: process.env.PATH ?? '', ...environment }
      const command = spawn(process.execPath, [MAIN, 'rebuild', view], { env, stdio: 'ignore' })
      const exit = once(command, 'exit')
      const killed = Promise.race([pause(random.integer(KILL_MS.from, KILL_MS.to)), exit])
      await killed
      command.kill('SIGKILL')
      const [code] = await exit
      ended[code === null ? 'killed' : 'done'] += 1
      if (kill % ROLE_KILL_EVERY !== ROLE_KILL_EVERY - 1) continue
      roles.kill('SIGKILL')
      await roles.ended
      roles = await platform.spawnRole(ROLES)
      await roles.baseUrl(START_LIMIT_MS)
    }
    isOver = true
    await load
    console.log(`      rebuilds killed ${ended.killed}, done before their kill ${ended.done}`)
    await waitForViews(config, log, {
      signal: AbortSignal.timeout(SETTLE_LIMIT_MS),
      without: ['alert-triggers', 'provider-health', 'fx', 'accounts'],
    })
    for (const view of STORED_VIEWS) {
      const findings = await findingsOf(config, log, view, () => undefined)
      console.log(`      ${view}: ${findings.compared} rows compared, ${findings.differences} differ`)
      expect(findings.examples, view).to.deep.equal([])
      await rebuild(config, log, view, collectOutput().stream, new AbortController().signal)
    }
    const clickhouse = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'test' })
    const left = await clickhouse.rows(
      `SELECT name FROM system.tables WHERE database = '${clickhouse.database}' AND name LIKE '%_shadow_%'`,
    )
    await clickhouse.close()
    await market.close()
    expect(left).to.deep.equal([])
  })
})
