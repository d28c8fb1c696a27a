/** A platform on a market file of the user's own: what it says of sources that fail, and markets that have no asks. */
import { expect } from 'chai'
import { freePort } from '#test/harness/listen.ts'
import { type OwnPlatform, prepareOwnPlatform } from './own-platform.ts'

const START_LIMIT_MS = 240_000

describe('a platform on a market file', function () {
  this.timeout(START_LIMIT_MS)
  let own: OwnPlatform

  before(async () => {
    own = await prepareOwnPlatform('empty')
  })

  afterEach(() => own.command(['down']))

  after(() => own.remove())

  const upWith = (feed: object) => {
    const base = new URL('../../infra/config/markets/base.json.gz', import.meta.url).pathname
    const feeds = [{ provider: 'provider_02', interval_ms: 60_000, ...feed }]
    return own.up({ name: 'own', base, seed: 7, items: 50, feeds })
  }

  it('used to say for minutes that the API is starting: it is up without a price where a source is down, and says why', async () => {
    const options = { url: `http://127.0.0.1:${await freePort()}/offers`, mapping: '$', retries: 0 }
    const { code, stderr } = await upWith({ side: 'ask', connector: 'http-json', options })
    expect(code, stderr).to.equal(0)
    expect(stderr).to.include('1 of 1 sources fail, and there is no price yet.')
    expect(stderr).to.match(/warn: ingest: refresh failed: provider_02: ask: .*ECONNREFUSED/)
    expect((await own.get('/prices')).body.items).to.deep.equal([])
  })

  it('used to wait for asks until it failed: it is live on bids alone', async () => {
    const { code, stderr } = await upWith({ side: 'bid', connector: 'simulated', options: {} })
    expect(code, stderr).to.equal(0)
    expect(stderr).not.to.include('sources fail')
    expect((await own.get('/bids')).body.items).not.to.deep.equal([])
  })

  it('likewise on sales alone', async () => {
    const { code, stderr } = await upWith({ side: 'sale', connector: 'simulated', options: { per_day: 100_000 } })
    expect(code, stderr).to.equal(0)
    expect(stderr).not.to.include('sources fail')
    expect((await own.get('/sales')).body.items).not.to.deep.equal([])
  })
})
