import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { BookChanged, RefreshMarked } from '#schemas/events/book-changed.ts'
import { bookTopic, decodeChange } from '#services/feed/feed-topics.ts'
import { type AssembledBatch, openRefreshAssembler } from '#services/feed/refresh-assembler.ts'
import { urlChangeOf } from '#test/fixtures/book-change-sequences.ts'
import { changed, marked } from '#test/harness/published-records.ts'

const LIMITS = { partitions: 2, waitMs: 500, changesMax: 100 }

const textsOf = (batches: AssembledBatch[]): string[] =>
  batches.map(({ side, provider, changes }) => `${side} ${provider} ${changes.map(change => change.item_id).join(' ')}`)

/** Positions, pushed changes and the order of an item are judged in feed-log-position.test.ts and feed-subscribe.test.ts. */
function openAssembler(limits: Parameters<typeof openRefreshAssembler>[0]) {
  const { add, release, held } = openRefreshAssembler(limits, { next: [], behind: new Map() })
  let offset = 0
  return {
    release,
    held,
    change: (value: BookChanged) => add({ event: 'BookChanged', value, partition: 0, offset: offset++ }, 0),
    mark: (partition: number, value: RefreshMarked, nowMs: number) =>
      add({ event: 'RefreshMarked', value, partition, offset: offset++ }, nowMs),
  }
}

describe('refresh assembler', () => {
  it('is given changes and markers alone: another URL would pass for a marker', () => {
    const undecodable = { inc: () => expect.fail('it can be read') } as never
    const taken = { BookChanged: changed(), OfferUrlChanged: urlChangeOf(changed(), null), RefreshMarked: marked() }
    const events = Object.entries(taken).flatMap(([event, value]) => {
      const kafka = { codec: { decode: () => ({ event, value }) } } as unknown as KafkaConnection
      const record = { partition: 0, offset: 7, value: Buffer.alloc(0), timestamp: 0 }
      return decodeChange(kafka, bookTopic, record, { undecodable }) ?? []
    })
    expect(events).to.deep.equal([
      { partition: 0, offset: 7, event: 'BookChanged', value: changed() },
      { partition: 0, offset: 7, event: 'RefreshMarked', value: marked() },
    ])
  })

  it('releases a refresh when every partition has brought its marker, and not before', () => {
    const assembler = openAssembler(LIMITS)
    expect(assembler.change(changed({ item_id: 1 }))).to.deep.equal([])
    expect(assembler.mark(0, marked(), 0)).to.deep.equal([])
    expect(assembler.change(changed({ item_id: 2 }))).to.deep.equal([])
    expect(assembler.release(100)).to.deep.equal([])
    expect(textsOf(assembler.mark(1, marked(), 100))).to.deep.equal(['ask p 1 2'])
    expect(assembler.held()).to.equal(0)
  })

  it('releases what began before the reader did when the next refresh is complete', () => {
    const assembler = openAssembler(LIMITS)
    assembler.change(changed({ item_id: 1, refresh_id: 'r1' }))
    assembler.mark(1, marked({ refresh_id: 'r1' }), 0)
    assembler.change(changed({ item_id: 2, refresh_id: 'r2' }))
    assembler.mark(0, marked({ refresh_id: 'r2' }), 1)
    expect(textsOf(assembler.mark(1, marked({ refresh_id: 'r2' }), 1))).to.deep.equal(['ask p 1', 'ask p 2'])
  })

  it('releases what began before the reader did after the wait, when nothing else comes', () => {
    const assembler = openAssembler(LIMITS)
    assembler.change(changed({ item_id: 1 }))
    assembler.mark(1, marked(), 1_000)
    expect(assembler.release(1_499)).to.deep.equal([])
    expect(textsOf(assembler.release(1_500))).to.deep.equal(['ask p 1'])
  })

  it('holds no more of a refresh than allowed', () => {
    const assembler = openAssembler({ ...LIMITS, changesMax: 2 })
    expect(assembler.change(changed({ item_id: 1 }))).to.deep.equal([])
    expect(textsOf(assembler.change(changed({ item_id: 2 })))).to.deep.equal(['ask p 1 2'])
    assembler.change(changed({ item_id: 3 }))
    expect(assembler.held()).to.equal(1)
  })
})
