/**
 * Visitors behind a proxy have a budget each, and nobody else may say whose request it is.
 *
 * All visitors behind one proxy shared 60 requests a minute, since the peer of the connection was counted.
 */
import { expect } from 'chai'
import { openApiScenario } from '#test/fixtures/api-scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const LIMIT = 60

describe('visitors behind a proxy', () => {
  const platform = useServers()
  let behind: string
  let open: string
  let close: () => Promise<void>
  before('one process that trusts loopback and one that trusts nobody', async () => {
    const scenario = await openApiScenario(platform, 5)
    close = () => scenario.close()
    const [trusting, other] = await Promise.all([
      platform.spawnRole('api', { TRUSTED_PROXIES: '127.0.0.0/8' }),
      platform.spawnRole('api'),
    ])
    ;[behind, open] = await Promise.all([trusting.baseUrl(), other.baseUrl()])
  })
  after('end of the market', () => close())

  const ask = async (root: string, headers: Record<string, string>): Promise<number> => {
    const answer = await fetch(`${root}/fx`, { headers: { ...headers, authorization: 'Bearer sk_unknown' } })
    await answer.arrayBuffer()
    return answer.status
  }
  /** How many of one more than the budget are refused for it. */
  const refused = async (root: string, headers: Record<string, string>): Promise<number> => {
    let count = 0
    for (let n = 0; n <= LIMIT; n++) if ((await ask(root, headers)) === 429) count += 1
    return count
  }

  it('have a budget each, from the right', async () => {
    expect(await refused(behind, { 'x-forwarded-for': '198.51.100.1' })).to.be.at.least(1)
    expect(await ask(behind, { 'x-forwarded-for': '198.51.100.2' })).to.equal(401)
    // What a client writes itself stands left of what the proxy adds, and gives it no other budget.
    expect(await ask(behind, { 'x-forwarded-for': '203.0.113.9, 198.51.100.1' })).to.equal(429)
  })

  it('are not believed where no proxy is trusted', async () => {
    expect(await refused(open, { 'x-forwarded-for': '198.51.100.7' })).to.be.at.least(1)
    expect(await ask(open, { 'x-forwarded-for': '198.51.100.8' })).to.equal(429)
  })
})
