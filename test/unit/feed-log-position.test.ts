/**
 * Positions in the log: their text, their order, and that from any of them a replay tells exactly the rest.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import {
  covers,
  decodePosition,
  distance,
  encodePosition,
  type LogPosition,
  readFrom,
} from '#services/feed/log-position.ts'
import {
  type ChangeRecord,
  openRefreshTeller,
  type RefreshTeller,
  type ToldBatch,
} from '#services/feed/refresh-teller.ts'
import { changed, marked } from '#test/harness/feed-events.ts'

const PARTITIONS = 3
const START: LogPosition = { next: [0, 0, 0], behind: new Map() }

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

/** The log of some refreshes of two providers that lie mixed in the partitions; item i lives in partition i % 3. */
const logs = fc
  .array(fc.record({ provider: fc.constantFrom('p', 'q'), items: fc.uniqueArray(fc.nat(8), { maxLength: 9 }) }), {
    maxLength: 8,
  })
  .chain(refreshes =>
    fc.infiniteStream(fc.boolean()).map(choices => {
      const queues = (['p', 'q'] as const).map(provider =>
        refreshes.flatMap((refresh, at) => (refresh.provider === provider ? [{ ...refresh, at }] : [])),
      )
      return Array.from({ length: PARTITIONS }, (_, partition) => {
        const own = queues.map(queue =>
          queue.flatMap(({ provider, items, at }) => [
            ...items
              .filter(item => item % PARTITIONS === partition)
              .map(item_id => ({
                event: 'BookChanged' as const,
                value: changed({ provider, item_id, refresh_id: `r${at}`, seen_at: at }),
              })),
            { event: 'RefreshMarked' as const, value: marked({ provider, refresh_id: `r${at}`, last_updated: at }) },
          ]),
        )
        const mixed: ChangeRecord[] = []
        while (own.some(queue => queue.length > 0)) {
          const record = own[choices.next().value ? 0 : 1]?.shift() ?? own.find(queue => queue.length > 0)?.shift()
          if (record) mixed.push({ partition, offset: mixed.length, ...record } as ChangeRecord)
        }
        return mixed
      })
    }),
  )

/** Reads a log from where a position says, in any order of partitions, and tells change by change. */
function* tellAll(
  log: readonly ChangeRecord[][],
  choices: Iterator<number>,
  from: LogPosition,
  to?: LogPosition,
): Generator<{ text: string; position: () => LogPosition }, RefreshTeller> {
  const teller = openRefreshTeller({ partitions: PARTITIONS, waitMs: 5, changesMax: 6 }, from, to)
  const next = readFrom(from)
  const tell = function* (batches: readonly ToldBatch[]) {
    for (const batch of batches)
      for (const [at, { provider, item_id, refresh_id }] of batch.changes.entries())
        yield { text: `${provider} ${item_id} ${refresh_id}`, position: () => batch.positionAfter(at + 1) }
  }
  const end = (partition: number) => Math.min(log[partition]?.length ?? 0, to?.next[partition] ?? Number.MAX_VALUE)
  for (let step = 0; next.some((offset, partition) => offset < end(partition)); step++) {
    const partition = choices.next().value as number
    const record = log[partition]?.[next[partition] ?? 0]
    if (!record || record.offset >= end(partition)) continue
    next[partition] = record.offset + 1
    yield* tell(teller.take(record, step))
    if (step % 7 === 0) yield* tell(teller.release(step))
  }
  yield* tell(teller.drain())
  return teller
}

describe('telling from a position', () => {
  const choices = fc.infiniteStream(fc.nat(PARTITIONS - 1))

  it('tells exactly the rest, in the order of each item, wherever and however often one breaks off', () => {
    fc.assert(
      fc.property(logs, choices, fc.array(fc.nat(6), { maxLength: 5 }), (log, order, breaks) => {
        const told: string[] = []
        let position = START
        for (const most of [...breaks, Number.POSITIVE_INFINITY]) {
          let count = 0
          for (const one of tellAll(log, order, position)) {
            if (count++ >= most) break
            told.push(one.text)
            // An id as a client keeps it.
            position = decodePosition(encodePosition(one.position(), 's'), 's', PARTITIONS) as LogPosition
          }
        }
        expectEachOnce(log, told)
      }),
      { numRuns: 500 },
    )
  })

  it('tells up to a live position exactly what the live stream has told, so that both join without seam', () => {
    fc.assert(
      fc.property(logs, choices, fc.nat(30), fc.nat(30), (log, order, first, second) => {
        const live = tellAll(log, order, START)
        const told: string[] = []
        let [left, joined] = [START, START]
        for (let count = 0; count < first + second; count++) {
          const { value, done } = live.next()
          if (done) break
          if (count < first) told.push(value.text)
          if (count < first) left = value.position()
          joined = value.position()
        }
        expect(covers(joined, left)).to.equal(true)
        expect(distance(left, joined)).to.be.at.least(0)
        for (const { text } of tellAll(log, order, left, joined)) told.push(text)
        for (const { text } of live) told.push(text)
        expectEachOnce(log, told)
      }),
      { numRuns: 500 },
    )
  })
})

function expectEachOnce(log: readonly ChangeRecord[][], told: readonly string[]): void {
  const expected = log.flat().flatMap(({ event, value }) => {
    if (event !== 'BookChanged') return []
    return [`${value.provider} ${value.item_id} ${value.refresh_id}`]
  })
  expect([...told].sort()).to.deep.equal([...expected].sort())
  for (const own of Map.groupBy(told, text => text.split(' ').slice(0, 2).join(' ')).values()) {
    const turns = own.map(text => Number(text.split(' r')[1]))
    expect(turns).to.deep.equal([...turns].sort((a, b) => a - b))
  }
}
