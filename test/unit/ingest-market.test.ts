import { expect } from 'chai'
import { loadMarket, parseMarket } from '#infra/config/market.ts'

const ask = { provider: 'p', side: 'ask', connector: 'simulated', interval_ms: 60_000, options: {} }
const recorded = { ...ask, connector: 'recorded', options: { dir: 'files' } }
const polled = { ...ask, connector: 'http-json', options: { url: 'https://a.example', mapping: '$' } }
const parse = (over: object) =>
  parseMarket(JSON.stringify({ name: 'm', base: 'base.json.gz', ...over }), '/etc/m/market.json')

describe('ingest: market files', () => {
  it('take paths from their own folder', () => {
    const market = parse({ feeds: [recorded] })
    expect(market.base).to.equal('/etc/m/base.json.gz')
    expect(market.feeds[0]?.options).to.deep.equal({ dir: '/etc/m/files' })
    expect(parse({ base: '/data/base.json.gz', feeds: [] }).base).to.equal('/data/base.json.gz')
  })

  it('fill every bound of a polled provider in', () => {
    expect(parse({ feeds: [polled] }).feeds[0]?.options).to.include.keys(
      ...['max_bytes', 'max_pages', 'request_timeout_ms', 'total_timeout_ms', 'retries', 'max_redirects', 'rows'],
    )
  })

  const faults: [string, object, RegExp][] = [
    ['a misspelt option', { feeds: [{ ...ask, options: { churm: 1 } }] }, /churm.*\n.*feeds\[0\]/],
    ['a share above 1', { feeds: [{ ...ask, options: { coverage: 1.5 } }] }, /feeds\[0\]\.options\.coverage/],
    ['an unknown connector', { feeds: [{ ...ask, connector: 'ftp' }] }, /connector/],
    ['recorded sales', { feeds: [{ ...recorded, side: 'sale' }] }, /side/],
    ['a feed ten times a second', { feeds: [{ ...ask, interval_ms: 100 }] }, /interval_ms/],
    ['two feeds of one side', { feeds: [ask, { ...polled }] }, /p has two feeds of side ask/],
    ['a simulated feed without a base', { base: null, feeds: [ask] }, /"base" is not set/],
    ['a polled provider without a mapping', { feeds: [{ ...polled, options: { url: 'x' } }] }, /mapping/],
  ]
  for (const [what, over, message] of faults) {
    it(`${what} is refused by name`, () =>
      expect(() => parse(over))
        .to.throw(message)
        .with.property('message')
        .match(/market\.json/))
  }

  it('are found by name; the error for a wrong name lists the right ones', () => {
    expect(loadMarket('empty').feeds).to.deep.equal([])
    expect(() => loadMarket('nowhere')).to.throw(/demo, empty, full/)
  })
})
