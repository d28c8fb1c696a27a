import { expect } from 'chai'
import { MINUTE_MS } from '#schemas/values/instant.ts'
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
/** A hundred items at so many times their numbers. */
const pricedAt = (factor: number): Entry[] => items(100, item => item * factor)
const tenLeft = hundred.slice(0, 10)
/** The first `count` of a hundred items at 100 times their price. */
const glitch = (count: number): Entry[] => items(100, item => (item <= count ? item * 10_000 : item * 100))
/** The same refresh at each of some minutes. */
const atMinutes = (minutes: readonly number[], entries: readonly Entry[]): InputRecord[] =>
  minutes.flatMap(minute => refresh(minute * MINUTE_MS, entries))
const HELD_BACK = 'quarantined collapsed'
const GLITCH = 'quarantined glitch'

describe('book quarantine', () => {
  /** What is said of refreshes that follow one of a hundred items, and the changes of all. */
  function judges(following: readonly InputRecord[], verdicts: readonly string[], changes: number): void {
    const played = play([...refresh(1, hundred), ...following])
    expect(verdictsOf(played)).to.deep.equal(['applied', ...verdicts])
    expect(played.changes).to.have.length(changes)
    expect(played.quarantined).to.have.length(verdicts.filter(verdict => verdict.startsWith('quarantined')).length)
  }

  it('a refresh that lost 90 percent of the items is held back', () => judges(refresh(2, tenLeft), [HELD_BACK], 100))
  it('used to wipe the book: a second one like it within a minute is held back too', () =>
    judges([...refresh(2, tenLeft), ...refresh(60_000, tenLeft)], [HELD_BACK, HELD_BACK], 100))
  it('three like it in a row that span thirty minutes are the new truth', () =>
    judges(atMinutes([1, 2, 31], tenLeft), [HELD_BACK, HELD_BACK, 'applied collapsed'], 190))
  it('three that span less are held back, and the next one after thirty minutes is believed', () =>
    judges(atMinutes([1, 2, 30.999, 31], tenLeft), [HELD_BACK, HELD_BACK, HELD_BACK, 'applied collapsed'], 190))
  it('two that span hours are held back', () => judges(atMinutes([1, 300], tenLeft), [HELD_BACK, HELD_BACK], 100))
  it('what is believed begins the count again', () =>
    judges(
      [...atMinutes([1, 2, 31], tenLeft), ...atMinutes([32, 61], tenLeft.slice(0, 4))],
      [HELD_BACK, HELD_BACK, 'applied collapsed', HELD_BACK, HELD_BACK],
      190,
    ))
  it('exactly half gone is believed', () => judges(refresh(2, hundred.slice(50)), ['applied'], 150))
  it('one more than half gone is held back', () => judges(refresh(2, hundred.slice(51)), [HELD_BACK], 100))
  it('as many new items do not hide that the old are gone', () =>
    judges(
      refresh(
        2,
        items(100).map(({ price }, index) => at(index + 200, price ?? 0)),
      ),
      [HELD_BACK],
      100,
    ))
  it('a good refresh in between forgets those before it', () =>
    judges(
      [...atMinutes([1, 2], tenLeft), ...atMinutes([3], hundred), ...atMinutes([31, 32, 33], tenLeft)],
      [HELD_BACK, HELD_BACK, 'applied', HELD_BACK, HELD_BACK, HELD_BACK],
      100,
    ))
  it('incomplete, failed and stale refreshes in between neither count nor forget them', () =>
    judges(
      [
        ...atMinutes([1, 2], tenLeft),
        ...refresh(3 * MINUTE_MS, hundred, { lost: [5] }),
        failed(4 * MINUTE_MS),
        ...refresh(5 * MINUTE_MS, hundred, { rate: '0' }),
        ...refresh(MINUTE_MS, hundred),
        ...atMinutes([31], tenLeft),
      ],
      [
        ...[HELD_BACK, HELD_BACK, 'incomplete count_mismatch', 'failed timeout', 'failed unusable_rate'],
        ...['stale not_newer', 'applied collapsed'],
      ],
      190,
    ))
  it('60 percent of the prices at 100 times themselves are held back', () =>
    judges(refresh(2, glitch(60)), [GLITCH], 100))
  it('three such glitches in a row over thirty minutes are the new truth', () =>
    judges(atMinutes([1, 2, 31], glitch(60)), [GLITCH, GLITCH, 'applied glitch'], 160))
  it('exactly half of the prices moved is believed', () => judges(refresh(2, glitch(50)), ['applied'], 150))
  it('every price moved by exactly 80 percent is believed', () =>
    judges([...refresh(2, pricedAt(180)), ...refresh(3, pricedAt(36))], ['applied', 'applied'], 300))
  it('prices that fell by more than 80 percent are as suspect as those that rose', () =>
    judges(refresh(2, pricedAt(19)), [GLITCH], 100))
  it('a collapse between glitches is of their row', () =>
    judges(
      [...atMinutes([1], glitch(60)), ...atMinutes([2], tenLeft), ...atMinutes([31], glitch(60))],
      [GLITCH, HELD_BACK, 'applied glitch'],
      160,
    ))
  it('a refresh that repeats the time of a quarantined one is stale', () =>
    judges([...refresh(2, tenLeft), ...refresh(2, tenLeft)], [HELD_BACK, 'stale not_newer'], 100))

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
    const played = play([...refresh(1, hundred), ...refresh(2, pricedAt(10_000), { currency: 'JPY', rate: '100' })])
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
