/**
 * The pool of Postgres when a connection is lost at the worst moment.
 */
import { expect } from 'chai'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const LIMIT_MS = 10_000

describe('a pool of Postgres', () => {
  const place = useServers()
  const opened: Database[] = []
  after(() => Promise.all(opened.map(database => database.close())))

  const open = (): Database => {
    const url = databaseUrl(place.config.servers.postgres, databaseName(place.namespace))
    const database = openDatabase(url, { name: 'test', log: place.log })
    opened.push(database)
    return database
  }

  it('used to end the process: a connection lost between two statements of a transaction fails the next one', async () => {
    const [database, other] = [open(), open()]
    const lost = await database
      .transaction(async query => {
        const [session] = await query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
        await other.rows('SELECT pg_terminate_backend($1)', [session?.pid])
        const ended = () => other.rows('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [session?.pid])
        await eventually(async () => (await ended()).length === 0, LIMIT_MS, 'the end of the session')
        return query('SELECT 1')
      })
      .catch(error => error)
    expect(lost).to.be.instanceOf(Error)
    expect(await database.rows('SELECT 1 AS one')).to.deep.equal([{ one: 1 }])
  })
})
