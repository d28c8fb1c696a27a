/**
 * When the book holds a refresh back, and when it believes it.
 */
import { expect } from 'chai'
import {
  at,
  changeTexts,
  type Entry,
  failed,
  type InputRecord,
  play,
  refresh,
  verdictsOf,
} from '#test/fixtures/book-inputs.ts'

const items = (count: number, price: (item: number) => number = item => item * 100): Entry[] =>
  Array.from({ length: count }, (_, index) => at(index + 1, price(index + 1)))
const hundred = items(100)
const tenLeft = hundred.slice(0, 10)
/** The first `count` of a hundred items at 100 times their price. */
const glitch = (count: number): Entry[] => items(100, item => (item <= count ? item * 10_000 : item * 100))
const MINUTE_MS = 60_000
/** The same refresh at each of some minutes. */
const atMinutes = (minutes: readonly number[], entries: readonly Entry[]): InputRecord[] =>
  minutes.flatMap(minute => refresh(minute * MINUTE_MS, entries))
const HELD_BACK = 'quarantined collapsed'

const claims: { name: string; given: InputRecord[]; then: string[]; changes: number }[] = [
  {
    name: 'a refresh that lost 90 percent of the items is held back',
    given: [...refresh(1, hundred), ...refresh(2, tenLeft)],
    then: ['applied', 'quarantined collapsed'],
    changes: 100,
  },
  {
    name: 'used to wipe the book: a second one like it within a minute is held back too',
    given: [...refresh(1, hundred), ...refresh(2, tenLeft), ...refresh(60_000, tenLeft)],
    then: ['applied', HELD_BACK, HELD_BACK],
    changes: 100,
  },
  {
    name: 'three like it in a row that span thirty minutes are the new truth',
    given: [...refresh(1, hundred), ...atMinutes([1, 2, 31], tenLeft)],
    then: ['applied', HELD_BACK, HELD_BACK, 'applied collapsed'],
    changes: 190,
  },
  {
    name: 'three that span less are held back, and the next one after thirty minutes is believed',
    given: [...refresh(1, hundred), ...atMinutes([1, 2, 30.999, 31], tenLeft)],
    then: ['applied', HELD_BACK, HELD_BACK, HELD_BACK, 'applied collapsed'],
    changes: 190,
  },
  {
    name: 'two that span hours are held back',
    given: [...refresh(1, hundred), ...atMinutes([1, 300], tenLeft)],
    then: ['applied', HELD_BACK, HELD_BACK],
    changes: 100,
  },
  {
    name: 'what is believed begins the count again',
    given: [...refresh(1, hundred), ...atMinutes([1, 2, 31], tenLeft), ...atMinutes([32, 61], tenLeft.slice(0, 4))],
    then: ['applied', HELD_BACK, HELD_BACK, 'applied collapsed', HELD_BACK, HELD_BACK],
    changes: 190,
  },
  {
    name: 'exactly half gone is believed',
    given: [...refresh(1, hundred), ...refresh(2, hundred.slice(50))],
    then: ['applied', 'applied'],
    changes: 150,
  },
  {
    name: 'one more than half gone is held back',
    given: [...refresh(1, hundred), ...refresh(2, hundred.slice(51))],
    then: ['applied', 'quarantined collapsed'],
    changes: 100,
  },
  {
    name: 'as many new items do not hide that the old are gone',
    given: [
      ...refresh(1, hundred),
      ...refresh(
        2,
        items(100).map(({ price }, index) => at(index + 200, price ?? 0)),
      ),
    ],
    then: ['applied', 'quarantined collapsed'],
    changes: 100,
  },
  {
    name: 'a good refresh in between forgets those before it',
    given: [
      ...refresh(1, hundred),
      ...atMinutes([1, 2], tenLeft),
      ...atMinutes([3], hundred),
      ...atMinutes([31, 32, 33], tenLeft),
    ],
    then: ['applied', HELD_BACK, HELD_BACK, 'applied', HELD_BACK, HELD_BACK, HELD_BACK],
    changes: 100,
  },
  {
    name: 'incomplete, failed and stale refreshes in between neither count nor forget them',
    given: [
      ...refresh(1, hundred),
      ...atMinutes([1, 2], tenLeft),
      ...refresh(3 * MINUTE_MS, hundred, { lost: [5] }),
      failed(4 * MINUTE_MS),
      ...refresh(5 * MINUTE_MS, hundred, { rate: '0' }),
      ...refresh(MINUTE_MS, hundred),
      ...atMinutes([31], tenLeft),
    ],
    then: [
      ...['applied', HELD_BACK, HELD_BACK, 'incomplete count_mismatch', 'failed timeout', 'failed unusable_rate'],
      ...['stale not_newer', 'applied collapsed'],
    ],
    changes: 190,
  },
  {
    name: '60 percent of the prices at 100 times themselves are held back',
    given: [...refresh(1, hundred), ...refresh(2, glitch(60))],
    then: ['applied', 'quarantined glitch'],
    changes: 100,
  },
  {
    name: 'three such glitches in a row over thirty minutes are the new truth',
    given: [...refresh(1, hundred), ...atMinutes([1, 2, 31], glitch(60))],
    then: ['applied', 'quarantined glitch', 'quarantined glitch', 'applied glitch'],
    changes: 160,
  },
  {
    name: 'exactly half of the prices moved is believed',
    given: [...refresh(1, hundred), ...refresh(2, glitch(50))],
    then: ['applied', 'applied'],
    changes: 150,
  },
  {
    name: 'every price moved by exactly 80 percent is believed',
    given: [
      ...refresh(1, hundred),
      ...refresh(
        2,
        items(100, item => item * 180),
      ),
      ...refresh(
        3,
        items(100, item => item * 36),
      ),
    ],
    then: ['applied', 'applied', 'applied'],
    changes: 300,
  },
  {
    name: 'prices that fell by more than 80 percent are as suspect as those that rose',
    given: [
      ...refresh(1, hundred),
      ...refresh(
        2,
        items(100, item => item * 19),
      ),
    ],
    then: ['applied', 'quarantined glitch'],
    changes: 100,
  },
  {
    name: 'a collapse between glitches is of their row',
    given: [
      ...refresh(1, hundred),
      ...atMinutes([1], glitch(60)),
      ...atMinutes([2], tenLeft),
      ...atMinutes([31], glitch(60)),
    ],
    then: ['applied', 'quarantined glitch', HELD_BACK, 'applied glitch'],
    changes: 160,
  },
  {
    name: 'a refresh that repeats the time of a quarantined one is stale',
    given: [...refresh(1, hundred), ...refresh(2, tenLeft), ...refresh(2, tenLeft)],
    then: ['applied', 'quarantined collapsed', 'stale not_newer'],
    changes: 100,
  },
]

describe('book quarantine', () => {
  for (const { name, given, then, changes } of claims) {
    it(name, () => {
      const played = play(given)
      expect(verdictsOf(played)).to.deep.equal(then)
      expect(played.changes).to.have.length(changes)
      expect(played.quarantined).to.have.length(then.filter(verdict => verdict.startsWith('quarantined')).length)
    })
  }

  it('names what was compared and the offsets of the records', () => {
    const { quarantined } = play([...refresh(1, hundred), ...refresh(2, glitch(60).slice(0, 90))])
    expect(quarantined[0]).to.deep.equal({
      side: 'ask',
      provider: 'p',
      refresh_id: 'r2',
      observed_at: 2,
      reason: 'glitch',
      items_before: 100,
      items_now: 90,
      moved: 60,
      compared: 90,
      source_partition: 3,
      first_offset: 101,
      last_offset: 191,
    })
  })
})

describe('book in another currency', () => {
  const euros = (price: (item: number) => number) => refresh(2, items(100, price), { currency: 'EUR', rate: '0.5' })

  it('compares in dollars: a hundred times the number at a hundredth of the worth is no glitch', () => {
    const played = play([
      ...refresh(1, hundred),
      ...refresh(
        2,
        items(100, item => item * 10_000),
        { currency: 'JPY', rate: '100' },
      ),
    ])
    expect(verdictsOf(played)).to.deep.equal(['applied', 'applied'])
  })

  it('compares in dollars: the same number at twice the worth is one', () => {
    expect(verdictsOf(play([...refresh(1, hundred), ...euros(item => item * 100)]))).to.deep.equal([
      'applied',
      'quarantined glitch',
    ])
  })

  it('updates every row once it is believed, the number that stayed the same included', () => {
    const { changes } = play([
      ...refresh(1, [at(1, 100), at(2, 100)]),
      ...refresh(2, [at(1, 100), at(2, 120)], { currency: 'EUR', rate: '0.8' }),
    ])
    expect(changeTexts(changes.slice(2))).to.deep.equal(['updated 1 100x1', 'updated 2 120x1'])
    expect(changes[2]).to.include({ currency: 'EUR', price_micro_usd: 1_250_000, previous_micro_usd: 1_000_000 })
  })
})
