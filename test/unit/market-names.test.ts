import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { loadSupply } from '#infra/config/supply.ts'
import { readMarketText } from '#schemas/values/market-text.ts'
import { readHistoryFile, UnusableHistory } from '#services/ingest/history-file.ts'

describe('names of history files', () => {
  const cases = [
    ['★ Bayonet | Doppler (Factory New) Phase2', '★ Bayonet | Doppler (Factory New)', 'Phase 2'],
    ['★ Bayonet | Doppler (Factory New) Phase 4', '★ Bayonet | Doppler (Factory New)', 'Phase 4'],
    ['★ Bayonet | Doppler (Factory New) Black Pearl', '★ Bayonet | Doppler (Factory New)', 'Black Pearl'],
    ['Glock-18 | Gamma Doppler (Field-Tested) - Emerald', 'Glock-18 | Gamma Doppler (Field-Tested)', 'Emerald'],
    ['AK-47 | Case Hardened (Field-Tested) Tier3', 'AK-47 | Case Hardened (Field-Tested) Tier3', null],
    ['  Sticker |  Ruby  ', 'Sticker | Ruby', null],
    ['★ Bayonet |\u00a0Doppler (Factory New)\u00a0Phase2\ufeff', '★ Bayonet | Doppler (Factory New)', 'Phase 2'],
    ['Nova | Wurst Ho\u0308lle (Field-Tested)', 'Nova | Wurst H\u00f6lle (Field-Tested)', null],
    ['Phase 2', 'Phase 2', null],
  ] as const
  for (const [text, name, phase] of cases)
    it(`${text} is ${name}${phase ? ` in ${phase}` : ''}`, () =>
      expect(readMarketText(text)).to.deep.equal({ name, phase }))
})

describe('history files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-history-'))
  after(() => rmSync(folder, { recursive: true }))
  const read = (text: string) => {
    const file = join(folder, 'one.csv')
    writeFileSync(file, text)
    return readHistoryFile(file, () => undefined, new AbortController().signal)
  }

  it('give closes by date, one per day, quoted names whole', async () => {
    const { closes, rows } = await read(
      'market_hash_name,date,price_minor,currency,listings\n"A, ""B""",2023-01-03,7,CNY,\n"A, ""B""",2023-01-02,5,cny,3\n"A, ""B""",2023-01-02,6,CNY,4\n',
    )
    expect(rows).to.equal(3)
    expect([...closes]).to.deep.equal([
      [
        'A, "B"',
        [
          { day: Date.UTC(2023, 0, 2), price: 6, currency: 'CNY', listings: 4 },
          { day: Date.UTC(2023, 0, 3), price: 7, currency: 'CNY', listings: null },
        ],
      ],
    ])
  })

  it('used to give the closes of a name apart for each spelling of it', async () => {
    const rows = [
      'A  B,2023-01-02,5,CNY',
      'A\u00a0B ,2023-01-03,6,CNY',
      '\u200bA B,2023-01-02,7,CNY',
      ' \u00a0,2023-01-02,7,CNY',
    ]
    const { closes, rejected } = await read(`market_hash_name,date,price_minor,currency\n${rows.join('\n')}\n`)
    expect([...closes].map(([name, all]) => [name, ...all.map(({ price }) => price)])).to.deep.equal([['A B', 7, 6]])
    expect([...rejected]).to.deep.equal([['name_missing', 1]])
  })

  it('take units where the column says price', async () => {
    const { closes } = await read('currency,price,date,market_hash_name\nUSD,13.275,2023-01-03,A\n')
    expect(closes.get('A')?.[0]).to.include({ price: 1328, listings: null })
  })

  it('count what is no close, by reason', async () => {
    const bad = [
      'A,2023-02-30,5,CNY,',
      'A,2023-01-01,0,CNY,',
      'A,2023-01-01,1.5,CNY,',
      'A,2023-01-01,5,¥,',
      'A,2023-01-01,5,CNY,-1',
      ',2023-01-01,5,CNY,',
    ]
    const { closes, rejected } = await read(`market_hash_name,date,price_minor,currency,listings\n${bad.join('\n')}\n`)
    expect(closes.size).to.equal(0)
    expect(Object.fromEntries(rejected)).to.deep.equal({
      date_invalid: 1,
      price_invalid: 2,
      currency_invalid: 1,
      listings_invalid: 1,
      name_missing: 1,
    })
  })

  for (const [name, text] of [
    ['without a price', 'market_hash_name,date,currency\nA,2023-01-01,CNY\n'],
    ['with a row of another length', 'market_hash_name,date,price_minor,currency\nA,2023-01-01\n'],
  ] as const)
    it(`are refused ${name}`, async () => {
      const refused = await read(text).then(
        () => undefined,
        error => error,
      )
      expect(refused).to.be.instanceOf(UnusableHistory)
    })
})

describe('supply', () => {
  it('has an estimate above nothing for most items', () => {
    const units = loadSupply()
    expect(units.size).to.be.above(20_000)
    for (const count of units.values()) expect(count).to.be.above(0)
  })
})
