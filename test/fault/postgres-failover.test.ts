/**
 * Postgres fails over while the API is written to: the server is killed, or made read-only, its standby promoted; the address names both.
 *
 * The address could name one server, a pool kept connections to a server that had become read-only, and every write failed until the process was
 * started again. Each write is sent again with its Idempotency-Key until it is answered, so what is written twice, or lost, shows in the ledger.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { withDatabase } from '#infra/runtime/postgres-address.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { expectBalanced, openLedger } from '#test/harness/ledger.ts'
import { openPostgresPair, type PostgresPair } from '#test/harness/own-postgres-pair.ts'
import { openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** What becomes of the first server; one that is made read-only keeps the connections that it has. */
const KINDS = ['killed', 'made read-only'] as const
const IS_LONG = process.env.FAULT === 'long'
/** Each has an account of its own, and less of them than an account may have. */
const WRITERS = IS_LONG ? 8 : 4
const WRITE_EVERY_MS = 25
const WRITES_BEFORE = IS_LONG ? 200 : 20
const WRITES_AFTER = IS_LONG ? 200 : 20
const RESUMED_S = 10
const LIMIT_MS = 60_000

interface Writer {
  key: string
  written: string[]
  /** Its answer is still to come. */
  sent: string | undefined
  refused: number
  lastAt: number
}

for (const kind of KINDS)
  describe(`Postgres that is ${kind} and replaced by its standby`, function () {
    this.timeout(240_000)
    let pair: PostgresPair
    const platform = useServers({
      own: {
        postgres: async () => {
          pair = await openPostgresPair()
          return pair
        },
      },
    })
    const ending = new AbortController()
    let scenario: Scenario
    const writers: Writer[] = []
    let writing: Promise<unknown> = Promise.resolve()

    before(async function () {
      this.timeout(LIMIT_MS)
      scenario = await openScenario(platform, { roles: ['delivery', 'api'] })
      for (let index = 0; index < WRITERS; index++)
        writers.push({ key: await platform.newKey(), written: [], sent: undefined, refused: 0, lastAt: 0 })
      writing = Promise.all(writers.map(write))
      writing.catch(() => undefined)
    })
    after(async () => {
      ending.abort()
      await writing
      await scenario.close()
    })

    /** Creates one portfolio after the other; each is sent again until it is there. */
    async function write(writer: Writer, index: number): Promise<void> {
      for (let number = 0; !ending.signal.aborted; number++) {
        const name = `writer ${index} portfolio ${number}`
        const headers = { 'idempotency-key': `${index}-${number}` }
        writer.sent = name
        while (!ending.signal.aborted) {
          const sent = { method: 'POST', as: writer.key, body: { name }, headers }
          const { status, text } = await scenario.ask('/v1/portfolio', sent)
          if (status !== 503) {
            if (status !== 201) throw new Error(`a write was answered ${status}: ${text}`)
            writer.written.push(name)
            writer.sent = undefined
            writer.lastAt = performance.now()
            break
          }
          writer.refused += 1
          await pause(WRITE_EVERY_MS)
        }
        await pause(WRITE_EVERY_MS)
      }
    }
    /** Until every writer has written more; a writer that has failed fails this. */
    const more = async (count: number, what: string): Promise<void> => {
      const before = writers.map(({ written }) => written.length)
      const isMore = () => writers.every(({ written }, at) => written.length >= (before[at] ?? 0) + count)
      await Promise.race([writing, eventually(isMore, what)])
    }

    async function end(): Promise<void> {
      if (kind === 'killed') return pair.kill()
      const server = openDatabase(pair.first, { name: 'test', log: platform.log })
      await server.rows('ALTER SYSTEM SET default_transaction_read_only = on')
      await server.rows('SELECT pg_reload_conf()')
      await server.close()
      const areRefused = () => writers.every(({ refused }) => refused > 0)
      await Promise.race([writing, eventually(areRefused, 'writes to be refused')])
    }

    it('has its writes taken again soon', async () => {
      await more(WRITES_BEFORE, 'the first writes')
      const endedAt = performance.now()
      await end()
      await pair.promote()
      const promotedAt = performance.now()
      await more(1, 'writes to the promoted server')
      const resumedAt = Math.max(...writers.map(({ lastAt }) => lastAt))
      const [fromEnd, fromPromotion] = [endedAt, promotedAt].map(at => (resumedAt - at) / 1_000) as [number, number]
      const limit = { atMost: RESUMED_S }
      expectFigure({
        test: `Postgres ${kind}`,
        what: 'until the last writer resumed',
        value: fromEnd,
        unit: 's',
        limit,
      })
      const refused = writers.reduce((sum, each) => sum + each.refused, 0)
      console.log(
        `      ${fromEnd.toFixed(2)} s, ${fromPromotion.toFixed(2)} s from the promotion, ${refused} requests refused meanwhile`,
      )
      await more(WRITES_AFTER, 'writes to go on')
      await scenario.roles.ready()
    })

    it('has written each once', async () => {
      ending.abort()
      await writing
      const url = withDatabase(pair.standby.addresses.postgres as string, databaseName(platform.namespace))
      const database = openDatabase(url, { name: 'test', log: platform.log })
      const stored = await database.rows<{ name: string }>('SELECT name FROM portfolios ORDER BY name')
      await database.close()
      const unanswered = new Set(writers.map(({ sent }) => sent))
      const names = stored.map(({ name }) => name).filter(name => !unanswered.has(name))
      const entries = (each: readonly string[]) => each.map(name => ({ key: name, what: 'created' }))
      const asked = writers.flatMap(({ written }) => written)
      const least = WRITERS * (WRITES_BEFORE + WRITES_AFTER)
      expectBalanced({ portfolios: openLedger(entries(asked), entries(names), least) })
      expect(
        writers.every(({ refused }) => refused > 0),
        'every writer was refused for a while',
      ).to.equal(true)
    })
  })
