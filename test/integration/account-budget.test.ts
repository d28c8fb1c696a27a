import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { TIERS } from '#infra/config/tiers.ts'
import { eventually } from '#test/harness/eventually.ts'
import { openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const MOST = 5

describe('expensive requests', () => {
  const platform = useServers()
  let scenario: Scenario
  before('an API', async () => {
    const built = JSON.parse(readFileSync(new URL('../../infra/config/tiers.json', import.meta.url), 'utf8'))
    for (const tier of TIERS) built[tier].expensive_requests_per_minute = MOST
    const tiersFile = join(platform.config.stateDir, 'few-expensive-ones.json')
    writeFileSync(tiersFile, JSON.stringify(built))
    scenario = await openScenario(platform, { config: { tiersFile } })
  })
  after('end of the API', () => scenario.close())

  it('are refused beyond the share of their account, whichever of its keys asks; others are answered', async () => {
    const as = await platform.newKey('quant')
    const child = await scenario.ask('/v1/account/sub-keys', { as, method: 'POST', body: { name: 'another' } })
    expect(child.status, child.text).to.equal(201)
    const made = await scenario.ask('/v1/portfolio', { as, method: 'POST', body: { name: 'any' } })
    const { id } = made.body
    // Before anything is counted: the minute begins with the first of these requests.
    const another = await scenario.startAnother()
    const search = '/v1/account/alerts?search=AK'
    const paths = [search, `/v1/portfolio/${id}/performance`, `/v1/portfolio/${id}/export`]
    // Each of its keys used to be counted alone.
    for (let i = 0; i < MOST; i++) {
      const { status, text } = await scenario.ask(paths[i % 3] as string, { as: i % 2 === 0 ? as : child.body.key })
      expect(status, text).to.equal(200)
    }
    for (const path of paths) {
      for (const key of [as, child.body.key]) {
        const refused = await scenario.ask(path, { as: key })
        expect([refused.status, refused.body.code]).to.deep.equal([429, 'RATE_LIMIT_EXCEEDED'])
        expect(Number(refused.headers.get('retry-after'))).to.be.within(1, 60)
        expect(refused.headers.get('ratelimit-policy')).to.include(`"expensive";q=${MOST};w=60`)
      }
    }
    const there = await fetch(another.baseUrl + search, { headers: { authorization: `Bearer ${as}` } })
    expect([there.status, ((await there.json()) as { code: string }).code]).to.deep.equal([429, 'RATE_LIMIT_EXCEEDED'])
    await another.stop()
    expect((await scenario.ask('/v1/account/alerts', { as })).status, 'no search').to.equal(200)
    // The ledger, the value, the entries, the days and the import used to be counted nowhere.
    const large = ['transactions', 'value', 'items', 'history'].map(path => `/v1/portfolio/${id}/${path}`)
    const upload = (bytes: number) => {
      const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n'
      const body = `${head}item_id,quantity\n${','.repeat(bytes)}\n\r\n--b--\r\n`
      const headers = { 'content-type': 'multipart/form-data; boundary=b' }
      return scenario.ask(`/v1/portfolio/${id}/import/csv`, { as, method: 'POST', body, headers })
    }
    const statuses = async (bytes: number) =>
      Promise.all(
        [upload(bytes), ...large.map(path => scenario.ask(path, { as }))].map(async one => (await one).status),
      )
    expect(await statuses(1_000)).to.not.include(429)
    await scenario.database.rows(
      `INSERT INTO portfolio_transactions (portfolio_id, item_id, type, quantity, price, currency, date, created_at, updated_at)
      SELECT $1, n, 'buy', 1, 1, 'USD', '2000-01-01', now(), now() FROM generate_series(1, 20) n`,
      [id],
    )
    await scenario.database.rows(
      'UPDATE portfolios SET entry_count = 1001, transaction_count = 1001, version = version + 1 WHERE id = $1',
      [id],
    )
    expect(await statuses(80_000)).to.deep.equal([429, 429, 429, 429, 429])
    const stranger = await platform.newKey('quant')
    expect((await scenario.ask(search, { as: stranger })).status, 'another account').to.equal(200)
  })

  it('keep no write waiting that is not of what they read', async () => {
    // Ledgers and values used to be read on the connections of writes.
    const as = await platform.newKey('quant')
    const create = () => scenario.ask('/v1/portfolio', { as, method: 'POST', body: { name: 'any' } })
    const { id } = (await create()).body
    const paths = ['transactions', 'value', 'items', 'history'].map(path => `/v1/portfolio/${id}/${path}`)
    let reads: Promise<unknown>[] = []
    await scenario.database.transaction(async query => {
      await query('SET LOCAL idle_in_transaction_session_timeout = 0')
      await query('LOCK TABLE portfolio_transactions, portfolio_entries IN ACCESS EXCLUSIVE MODE')
      reads = Array.from({ length: 16 }, (_, i) => scenario.ask(paths[i % 4] as string, { as }))
      const waiting = async () => {
        const [found] = await scenario.database.rows<{ count: number }>(
          `SELECT count(*)::int AS count FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name LIKE 'api%'`,
        )
        return (found?.count ?? 0) >= 6
      }
      await eventually(waiting, 'the reads to wait')
      expect((await create()).status).to.equal(201)
    })
    await Promise.all(reads)
  })
})
