import { expect } from 'chai'
import fc from 'fast-check'
import { covers, decodePosition, distance, encodePosition, type LogPosition } from '#services/feed/log-position.ts'
import { changesFrom, expectEachOnce, logs, PARTITIONS, START } from '#test/fixtures/feed-logs.ts'

const positions = fc
  .record({
    next: fc.array(fc.integer({ min: 0, max: 2 ** 48 }), { minLength: 3, maxLength: 3 }),
    lags: fc.dictionary(
      fc.string({ maxLength: 20 }),
      fc.array(fc.integer({ min: 0, max: 1_000 }), { minLength: 3, maxLength: 3 }),
      { maxKeys: 4 },
    ),
  })
  .map(({ next, lags }): LogPosition => {
    const own = (lag: readonly number[]) => next.map((offset, at) => Math.max(0, offset - (lag[at] ?? 0)))
    return { next, behind: new Map(Object.entries(lags).map(([lane, lag]) => [lane, own(lag)])) }
  })

describe('a position in the log', () => {
  it('is read from its text as it was written, in its own scope alone', () => {
    fc.assert(
      fc.property(positions, position => {
        const text = encodePosition(position, 'here|prices')
        expect(decodePosition(text, 'here|prices', PARTITIONS)).to.deep.equal(position)
        expect(decodePosition(text, 'here|bids', PARTITIONS)).to.equal(undefined)
        expect(decodePosition(text, 'here|prices', PARTITIONS + 1)).to.equal(undefined)
      }),
    )
  })

  it('is not read from any other text', () => {
    const text = encodePosition({ next: [5, 300, 70_000], behind: new Map([['ask|p', [1, 2, 3]]]) }, 's')
    for (let at = 0; at < text.length; at++) {
      const other = text[at] === 'A' ? 'B' : 'A'
      const decoded = decodePosition(`${text.slice(0, at)}${other}${text.slice(at + 1)}`, 's', PARTITIONS)
      // The last character holds bits that are none of the bytes.
      if (at < text.length - 1) expect(decoded, `character ${at}`).to.equal(undefined)
    }
    fc.assert(fc.property(fc.string(), any => decodePosition(any, 's', PARTITIONS) === undefined))
  })

  it('is short', () => {
    const next = Array.from({ length: 8 }, () => 40_000_000)
    expect(encodePosition({ next, behind: new Map() }, 's').length).to.be.below(64)
  })
})

describe('a replay from a position', () => {
  const choices = fc.infiniteStream(fc.nat(PARTITIONS - 1))

  it('delivers exactly the rest, in the order of each item, wherever and however often one breaks off', () => {
    fc.assert(
      fc.property(logs, choices, fc.array(fc.nat(6), { maxLength: 5 }), (log, order, breaks) => {
        const delivered: string[] = []
        let position = START
        for (const most of [...breaks, Number.POSITIVE_INFINITY]) {
          let count = 0
          for (const one of changesFrom(log, order, position)) {
            if (count++ >= most) break
            delivered.push(one.text)
            // An id as a client keeps it.
            position = decodePosition(encodePosition(one.position(), 's'), 's', PARTITIONS) as LogPosition
          }
        }
        expectEachOnce(log, delivered)
      }),
      { numRuns: 500 },
    )
  })

  it('delivers up to a live position exactly what the live stream has delivered, so that both join without a gap', () => {
    fc.assert(
      fc.property(logs, choices, fc.nat(30), fc.nat(30), (log, order, first, second) => {
        const live = changesFrom(log, order, START)
        const delivered: string[] = []
        let [left, joined] = [START, START]
        for (let count = 0; count < first + second; count++) {
          const { value, done } = live.next()
          if (done) break
          if (count < first) delivered.push(value.text)
          if (count < first) left = value.position()
          joined = value.position()
        }
        expect(covers(joined, left)).to.equal(true)
        expect(distance(left, joined)).to.be.at.least(0)
        for (const { text } of changesFrom(log, order, left, joined)) delivered.push(text)
        for (const { text } of live) delivered.push(text)
        expectEachOnce(log, delivered)
      }),
      { numRuns: 500 },
    )
  })
})
