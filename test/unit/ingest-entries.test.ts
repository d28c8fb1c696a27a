import { expect } from 'chai'
import fc from 'fast-check'
import { NO_PATTERN } from '#schemas/events/sale-observed.ts'
import { parseRate, type Rate, USD_RATE } from '#schemas/values/money.ts'
import { entryFault, judgedEntry, nameOf, priceMaxAt, rawText } from '#services/ingest/entry.ts'
import { minorUnits } from '#services/ingest/minor-units.ts'
import { judgeSale } from '#services/ingest/sale.ts'
import type { RawEntry, RawSale } from '#services/ingest/source.ts'
import { expand, fractionOf } from '#test/oracles/exact-amounts.ts'

const priceMax = priceMaxAt(USD_RATE)
const good = { market_hash_name: 'AK-47 | Redline (Field-Tested)', price: 1, quantity: 1 }

describe('ingest: entries', () => {
  const cases: { what: string; entry: unknown; fault: string | undefined }[] = [
    { what: 'a price of one unit', entry: good, fault: undefined },
    { what: 'a name of any script', entry: { ...good, market_hash_name: '★ 刀 | 龍 (崭新)' }, fault: undefined },
    { what: 'empty phase and URL', entry: { ...good, phase: '', url: null }, fault: undefined },
    { what: 'no entry', entry: null, fault: 'entry_not_object' },
    { what: 'a text for an entry', entry: 'AK-47', fault: 'entry_not_object' },
    { what: 'no name', entry: { price: 1, quantity: 1 }, fault: 'name_missing' },
    { what: 'an empty name', entry: { ...good, market_hash_name: '' }, fault: 'name_missing' },
    { what: 'a number for a name', entry: { ...good, market_hash_name: 7 }, fault: 'name_invalid' },
    { what: 'NUL in a name', entry: { ...good, market_hash_name: 'a\0b' }, fault: 'name_invalid' },
    { what: 'a lone surrogate in a name', entry: { ...good, market_hash_name: 'a\ud800b' }, fault: 'name_invalid' },
    { what: 'an endless name', entry: { ...good, market_hash_name: 'a'.repeat(1e6) }, fault: 'name_invalid' },
    { what: 'a number for a phase', entry: { ...good, phase: 2 }, fault: 'phase_invalid' },
    { what: 'a script for a URL', entry: { ...good, url: 'javascript:alert(1)' }, fault: 'url_invalid' },
    { what: 'a line break in a URL', entry: { ...good, url: 'https://a.example/\r\nx: y' }, fault: 'url_invalid' },
    { what: 'no price', entry: { ...good, price: undefined }, fault: 'price_missing' },
    { what: 'a null price', entry: { ...good, price: null }, fault: 'price_missing' },
    { what: 'a text for a price', entry: { ...good, price: 'abc' }, fault: 'price_not_number' },
    { what: 'NaN', entry: { ...good, price: Number.NaN }, fault: 'price_not_number' },
    { what: 'an infinite price', entry: { ...good, price: Number.POSITIVE_INFINITY }, fault: 'price_not_number' },
    { what: 'a negative price', entry: { ...good, price: -5 }, fault: 'price_not_positive' },
    { what: 'a price of nothing', entry: { ...good, price: 0 }, fault: 'price_not_positive' },
    { what: 'a fraction of a unit', entry: { ...good, price: 12.5 }, fault: 'price_not_integer' },
    { what: 'a price beyond exactness', entry: { ...good, price: 2 ** 60 }, fault: 'price_too_large' },
    { what: 'no quantity', entry: { ...good, quantity: undefined }, fault: 'quantity_missing' },
    { what: 'a quantity of 0', entry: { ...good, quantity: 0 }, fault: 'quantity_not_positive' },
    { what: 'a text for a quantity', entry: { ...good, quantity: '3' }, fault: 'quantity_not_number' },
    { what: 'a quantity beyond an int', entry: { ...good, quantity: 2 ** 31 }, fault: 'quantity_too_large' },
  ]
  for (const { what, entry, fault } of cases) {
    it(`${what}: ${fault ?? 'passes'}`, () => expect(entryFault(entry as RawEntry, priceMax)).to.equal(fault))
  }

  it('whatever passes fits the wire: text survives UTF-8, quantity an int, price micro-dollars', () => {
    const rates = ['1', '6.70778353', '0.000012017405', '15893.5', '1.2e-7']
    const amount = fc.oneof(
      { weight: 9, arbitrary: fc.integer({ min: -5, max: 2 ** 31 }) },
      fc.double(),
      fc.constantFrom(2 ** 50, 2 ** 53, 1e300, '5', null),
    )
    const entries = fc.record({
      market_hash_name: fc.oneof(fc.string({ unit: 'binary' }), fc.constant(undefined)),
      phase: fc.option(fc.string({ unit: 'binary' }), { nil: undefined }),
      price: amount,
      quantity: amount,
      url: fc.oneof(fc.webUrl(), fc.constant(null), fc.anything()),
    })
    let passed = 0
    const property = fc.property(entries, fc.constantFrom(...rates), (entry, rate) => {
      if (entryFault(entry, priceMaxAt(parseRate(rate) as Rate))) {
        expect(rawText(entry).length).to.be.at.most(2_000)
        return
      }
      passed++
      const { market_hash_name: name, phase, price, quantity, url } = judgedEntry(entry)
      for (const text of [name, phase ?? '', url ?? '']) expect(Buffer.from(text).toString()).to.equal(text)
      expect(quantity).to.equal(quantity | 0)
      const { over, under } = fractionOf(rate)
      expect(expand({ over: BigInt(price) * 10_000n * under, under: over }, 0) <= 2n ** 51n).to.equal(true)
    })
    fc.assert(property, { seed: 1, numRuns: 1_000 })
    expect(passed).to.be.greaterThan(100)
    fc.assert(property, { numRuns: 1_000 })
  })

  it('a rejected entry keeps its text, NaN included, and its name where it has one', () => {
    const entry = { market_hash_name: 'AK', price: Number.NaN, quantity: 1 }
    expect(JSON.parse(rawText(entry))).to.deep.equal({ market_hash_name: 'AK', price: 'NaN', quantity: 1 })
    expect(nameOf(entry)).to.equal('AK')
    expect(nameOf({ market_hash_name: 'a\0', price: 1 })).to.equal(null)
    expect(nameOf(null as unknown as RawEntry)).to.equal(null)
    expect(rawText({ text: '😀'.repeat(2_000) }).isWellFormed()).to.equal(true)
  })
})

describe('ingest: decimal prices', () => {
  const cases: [unknown, number | undefined][] = [
    ['19.99', 1_999],
    [19.99, 1_999],
    [1.005, 101],
    ['1.004999999999999999999', 100],
    [0.07, 7],
    ['1e3', 100_000],
    [1e-7, 0],
    ['.5', 50],
    ['5.', 500],
    [' 12.30 ', 1_230],
    ['-3.50', -350],
    [9007199254740.99, 900719925474099],
    ['90071992547409.91', 9007199254740991],
    ['90071992547409.92', undefined],
    ['1,234.50', undefined],
    ['$5', undefined],
    ['', undefined],
    ['.', undefined],
    ['0x10', undefined],
    [Number.NaN, undefined],
    [null, undefined],
    [true, undefined],
  ]
  for (const [amount, minor] of cases) {
    it(`${JSON.stringify(amount)} is ${minor ?? 'no decimal'}`, () => expect(minorUnits(amount)).to.equal(minor))
  }

  it('equals the exact rational value, half up', () => {
    const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength: 9 })
    fc.assert(
      fc.property(digits, digits, (whole, fraction) => {
        const scale = 10n ** BigInt(fraction.length)
        const scaled = (BigInt(whole) * scale + BigInt(fraction)) * 100n
        const exact = scaled / scale + ((scaled % scale) * 2n >= scale ? 1n : 0n)
        expect(minorUnits(`${whole}.${fraction}`)).to.equal(Number(exact))
      }),
    )
  })

  it('a number gives what its text gives', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e11 }), minor => {
        const text = `${Math.floor(minor / 100)}.${String(minor % 100).padStart(2, '0')}`
        expect(minorUnits(Number(text))).to.equal(minor)
      }),
    )
  })
})

describe('ingest: sales', () => {
  const context = { provider: 'p', currency: 'USD', usdRate: '1', observedAt: Date.UTC(2026, 11, 1), priceMax }
  const sale: RawSale = { market_hash_name: 'AK', price: 100, sold_at: '2026-03-03T21:34:30Z', float: 0.25 }
  const judged = (over: object) => judgeSale({ ...sale, ...over } as RawSale, context, new Map())
  const saleOf = (over: object) => {
    const result = judged(over)
    if ('fault' in result) throw new Error(result.fault)
    return result.sale
  }

  const sticker = (name: string, slot: number) => ({ name, slot, wear: 0 })

  it('passes with what the provider gives', () => {
    const full = saleOf({
      sale_id: 17,
      phase: 'Ruby',
      paint_seed: 3,
      stickers: [{ name: 's', slot: 4, wear: 0.5 }],
      charms: [{ name: 'c', pattern_id: 9 }],
      screenshot_front: 'https://a.example/f.png',
    })
    expect(full.stickers).to.deep.equal([{ name: 's', slot: 4, wear: 0.5 }])
    expect(full.charms).to.deep.equal([{ name: 'c', pattern_id: 9 }])
    expect(full).to.include({ sale_id: '17', phase: 'Ruby', sold_at: Date.UTC(2026, 2, 3, 21, 34, 30), usd_rate: '1' })
  })

  it('keeps, as an event of a feed, to a line that common clients read, whatever it holds', () => {
    // Of six bytes each as JSON.
    const name = '\u0001'.repeat(128)
    const link = `https://a.example/${'é'.repeat(2_030)}`
    const largest = {
      stickers: Array(16).fill({ name, slot: 4, wear: 0.123456789 }),
      charms: Array(16).fill({ name, pattern_id: 123456789 }),
      inspect_in_game: '\u0001'.repeat(2_048),
      screenshot_front: link,
      screenshot_back: link,
    }
    const kept = saleOf(largest)
    expect(kept).to.deep.include(largest)
    expect(Buffer.byteLength(JSON.stringify(kept))).to.be.below(50_000)
    const longer = { name: 'x'.repeat(129) }
    expect(saleOf({ stickers: [longer], charms: [longer] })).to.include({ stickers: null, charms: null })
  })

  it('without an id gets one of its own members: equal in every refresh, different for a different sale', () => {
    const later = judgeSale(sale, { ...context, observedAt: context.observedAt + 1, usdRate: '2' }, new Map())
    expect('sale' in later && later.sale.sale_id).to.equal(saleOf({}).sale_id)
    expect(saleOf({ float: 0.26 }).sale_id).not.to.equal(saleOf({}).sale_id)
  })

  it('used to be one where several are the same to the moment: they are numbered, alike in every refresh', () => {
    const listed = [{}, { float: 0.26 }, {}, { sale_id: 'own' }, {}, { sale_id: 'own' }, { price: 0 }, {}]
    const [one, other] = [1, 2].map(() => {
      const seen = new Map<string, number>()
      const all = listed.map(over => judgeSale({ ...sale, ...over } as RawSale, context, seen))
      return all.map(result => ('sale' in result ? result.sale.sale_id : result.fault))
    })
    expect(one).to.deep.equal(other)
    expect(new Set([0, 2, 4, 7].map(i => one?.[i]))).to.have.property('size', 4)
    expect([one?.[0], one?.[1], one?.[3], one?.[5]]).to.deep.equal([
      ...[saleOf({}).sale_id, saleOf({ float: 0.26 }).sale_id],
      ...['own', 'own'],
    ])
  })

  const times: [unknown, string][] = [
    [1795514400, '2026-11-24T10:00:00.000Z'],
    ['1795514400', '2026-11-24T10:00:00.000Z'],
    [1795514400.25, '2026-11-24T10:00:00.250Z'],
    ['1795514400.123456', '2026-11-24T10:00:00.123Z'],
    [1795514400123, '2026-11-24T10:00:00.123Z'],
    [1795514400123.4, '2026-11-24T10:00:00.123Z'],
    ['1795514400123', '2026-11-24T10:00:00.123Z'],
    [1375315200, '2013-08-01T00:00:00.000Z'],
    ['2026-11-24t10:00:00z', '2026-11-24T10:00:00.000Z'],
    ['2026-11-24T10:00:00', '2026-11-24T10:00:00.000Z'],
    ['2026-11-24 10:00:00', '2026-11-24T10:00:00.000Z'],
    ['2026-11-24T10:00Z', '2026-11-24T10:00:00.000Z'],
    ['2026-11-24T12:30:00.5+02:30', '2026-11-24T10:00:00.500Z'],
    ['2026-11-24T08:00:00-02', '2026-11-24T10:00:00.000Z'],
    ['2026-11-24', '2026-11-24T00:00:00.000Z'],
  ]
  for (const [stated, time] of times) {
    it(`sold at ${JSON.stringify(stated)} are of ${time}`, () =>
      expect(saleOf({ sold_at: stated }).sold_at).to.equal(Date.parse(time)))
  }

  const details: [object, object][] = [
    [{ charms: [{ name: "Lil' Ava" }] }, { charms: [{ name: "Lil' Ava", pattern_id: NO_PATTERN }] }],
    [{ charms: { name: 'only one', pattern_id: 'rare' } }, { charms: [{ name: 'only one', pattern_id: NO_PATTERN }] }],
    [{ charms: 'none' }, { charms: null }],
    [{ charms: [] }, { charms: [] }],
    [{ stickers: [null, { name: 's' }, { name: 't', wear: null }] }, { stickers: [sticker('s', 1), sticker('t', 2)] }],
    [{ stickers: [{ name: 's', slot: '3', wear: '0.5' }] }, { stickers: [{ ...sticker('s', 3), wear: 0.5 }] }],
    [{ stickers: [{ name: 's' }, { name: 't', slot: 5 }] }, { stickers: null }],
    [{ stickers: [{ name: 's', wear: 1.5 }] }, { stickers: null }],
    [{ stickers: [{ name: 's' }, { slot: 1 }] }, { stickers: null }],
    [{ stickers: Array(17).fill({ name: 's', slot: 0 }) }, { stickers: null }],
    [{ float: 1.5 }, { float: null }],
    [{ float: Number.NaN }, { float: null }],
    [{ float: '0.2113' }, { float: 0.2113 }],
    [{ paint_seed: 1.5 }, { paint_seed: null }],
    [{ paint_seed: 'blue' }, { paint_seed: null }],
    [{ paint_seed: '661' }, { paint_seed: 661 }],
    [{ inspect_in_game: 7, url: 'no address' }, { inspect_in_game: null }],
    [{ screenshot_back: 'ftp://a' }, { screenshot_back: null }],
  ]
  for (const [given, known] of details) {
    it(`${JSON.stringify(given).slice(0, 80)} drops no sale`, () => expect(saleOf(given)).to.deep.include(known))
  }

  const faults: [object, string][] = [
    [{ sold_at: undefined }, 'sold_at_missing'],
    ...['yesterday', '0x10', {}, 0, -1, Number.NaN, 1375315199, '2013-07-31T23:59:59Z', '2026-02-30'].map(
      (sold_at): [object, string] => [{ sold_at }, 'sold_at_invalid'],
    ),
    // In the future, and in micro- and nanoseconds.
    ...[1796169600, '2026-12-01T00:10:00.001Z', 1795514400e6, 1795514400e9].map((sold_at): [object, string] => [
      { sold_at },
      'sold_at_invalid',
    ]),
    [{ sale_id: {} }, 'sale_id_invalid'],
    [{ price: -1 }, 'price_not_positive'],
  ]
  for (const [over, fault] of faults) {
    it(`${JSON.stringify(over)} is rejected: ${fault}`, () => expect(judged(over)).to.deep.equal({ fault }))
  }
})
