import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { loadCurrencies } from '#infra/config/currencies.ts'
import { openLog } from '#infra/runtime/log.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { parseRateTable } from '#services/ingest/fx/rate-table.ts'
import { keepRates, packagedRates } from '#services/ingest/fx/rates.ts'
import { eventually } from '#test/harness/eventually.ts'

const text = (usd: string, date = '"2026-09-29"') => `{"date":${date},"usd":${usd}}`

describe('ingest: exchange rates', () => {
  it('are the texts of the source, not numbers printed again', () => {
    const table = parseRateTable(text('{"usd":1,"eur":0.90123456789012345678,"btc":1.20e-05,"jpy":150.00}'), 'test', [
      'USD',
      'EUR',
      'BTC',
      'JPY',
      'GBP',
    ])
    expect(table.event.rates).to.deep.equal({
      USD: '1',
      BTC: '1.20e-05',
      EUR: '0.90123456789012345678',
      JPY: '150.00',
    })
    expect(table.asOf).to.equal(Date.UTC(2026, 8, 29))
    expect(table.rateOf('EUR')?.text).to.equal('0.90123456789012345678')
    expect(table.rateOf('GBP')).to.equal(undefined)
  })

  it('leave out what is no positive rate; the dollar is 1 whatever the source says', () => {
    const table = parseRateTable(text('{"usd":2,"eur":0,"jpy":-1,"cny":7,"gbp":"x"}'), 'test', [
      'USD',
      'EUR',
      'JPY',
      'CNY',
      'GBP',
    ])
    expect(table.event.rates).to.deep.equal({ USD: '1', CNY: '7' })
  })

  it('refuse a source of another shape', () => {
    for (const bad of ['{', '[]', 'null', text('{"usd":1,"eur":1}', '"soon"'), text('{}'), '{"date":"2026-09-29"}'])
      expect(() => parseRateTable(bad, 'test', ['USD', 'EUR']), bad).to.throw()
  })

  it('that are dated ahead wait for their time: the last table stays until then', async () => {
    const dated = (days: number) => {
      const date = new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10)
      return parseRateTable(text('{"usd":1,"eur":2}', `"${date}"`), 'test', ['USD', 'EUR'])
    }
    const next = dated(-1)
    const tables = [dated(2), dated(2), next]
    const stop = new AbortController()
    const rates = await keepRates({
      remote: async () => tables.shift() ?? next,
      everyMs: 1,
      log: openLog({ level: 'silent', name: 'test' }),
      signal: stop.signal,
    })
    const packaged = rates.current()
    expect(packaged.source).to.equal('@fawazahmed0/currency-api')
    await eventually(() => rates.current() === next, 'the next rates')
    expect(tables).to.have.length(0)
    stop.abort()
    await rates.closed
  })

  it('of the package hold every code of the platform that it knows', async () => {
    const codes = loadCurrencies()
    const table = await packagedRates()
    const file = fileURLToPath(import.meta.resolve('@fawazahmed0/currency-api/v1/currencies/usd.json'))
    const known = Object.keys(JSON.parse(readFileSync(file, 'utf8')).usd)
    const expected = codes.filter(code => known.includes(code.toLowerCase()))
    expect(Object.keys(table.event.rates).sort()).to.deep.equal(expected.sort())
    expect(expected.length).to.be.greaterThan(200)
  })
})
