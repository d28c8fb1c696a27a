import { expect } from 'chai'
import fc from 'fast-check'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { BookChanged, RefreshMarked } from '#schemas/events/book-changed.ts'
import { decodeChange } from '#services/feed/change-reader.ts'
import { type BufferLimits, openRefreshBuffer, type ReleasedBatch } from '#services/feed/refresh-buffer.ts'
import { urlChangeOf } from '#test/fixtures/book-change-sequences.ts'
import { changed, marked } from '#test/harness/published-records.ts'

const LIMITS = { partitions: 2, waitMs: 500, changesMax: 100 }

const textsOf = (batches: ReleasedBatch[]): string[] =>
  batches.map(({ side, provider, changes }) => `${side} ${provider} ${changes.map(change => change.item_id).join(' ')}`)

/** A buffer whose records come from anywhere: the position of a batch is tested in feed-log-position.test.ts. */
function openBuffer(limits: BufferLimits) {
  const { change, mark, release, held } = openRefreshBuffer(limits)
  let offset = 0
  return {
    release,
    held,
    change: (changed: BookChanged) => change(changed, { partition: 0, offset: offset++ }),
    mark: (partition: number, marked: RefreshMarked, nowMs: number) =>
      mark(marked, { partition, offset: offset++ }, nowMs),
  }
}

describe('refresh buffer', () => {
  it('is given changes and markers alone: another URL would pass for a marker', () => {
    const undecodable = { inc: () => expect.fail('it can be read') } as never
    const taken = { BookChanged: changed(), OfferUrlChanged: urlChangeOf(changed(), null), RefreshMarked: marked() }
    const events = Object.entries(taken).flatMap(([event, value]) => {
      const kafka = { codec: { decode: () => ({ event, value }) } } as unknown as KafkaConnection
      return decodeChange(kafka, { partition: 0, offset: 7, value: Buffer.alloc(0) }, { undecodable }) ?? []
    })
    expect(events).to.deep.equal([
      { partition: 0, offset: 7, event: 'BookChanged', value: changed() },
      { partition: 0, offset: 7, event: 'RefreshMarked', value: marked() },
    ])
  })

  it('releases a refresh when every partition has brought its marker, and not before', () => {
    const buffer = openBuffer(LIMITS)
    expect(buffer.change(changed({ item_id: 1 }))).to.deep.equal([])
    expect(buffer.mark(0, marked(), 0)).to.deep.equal([])
    expect(buffer.change(changed({ item_id: 2 }))).to.deep.equal([])
    expect(buffer.release(100)).to.deep.equal([])
    expect(textsOf(buffer.mark(1, marked(), 100))).to.deep.equal(['ask p 1 2'])
    expect(buffer.held()).to.equal(0)
  })

  it('says nothing of a refresh without changes', () => {
    const buffer = openBuffer(LIMITS)
    expect([...buffer.mark(0, marked(), 0), ...buffer.mark(1, marked(), 0), ...buffer.release(1_000)]).to.deep.equal([])
  })

  it('keeps providers and sides apart', () => {
    const buffer = openBuffer({ ...LIMITS, partitions: 1 })
    buffer.change(changed({ item_id: 1 }))
    buffer.change(changed({ item_id: 2, provider: 'q' }))
    buffer.change(changed({ item_id: 3, side: 'bid' }))
    expect(textsOf(buffer.mark(0, marked({ side: 'bid' }), 0))).to.deep.equal(['bid p 3'])
    expect(textsOf(buffer.mark(0, marked({ provider: 'q' }), 0))).to.deep.equal(['ask q 2'])
  })

  it('releases what is pushed at the end of the fetch', () => {
    const buffer = openBuffer(LIMITS)
    expect(buffer.change(changed({ item_id: 1, refresh_id: null }))).to.deep.equal([])
    expect(textsOf(buffer.release(0))).to.deep.equal(['ask p 1'])
    expect(buffer.release(0)).to.deep.equal([])
  })

  it('releases what began before the reader did when the next refresh is complete', () => {
    const buffer = openBuffer(LIMITS)
    buffer.change(changed({ item_id: 1, refresh_id: 'r1' }))
    buffer.mark(1, marked({ refresh_id: 'r1' }), 0)
    buffer.change(changed({ item_id: 2, refresh_id: 'r2' }))
    buffer.mark(0, marked({ refresh_id: 'r2' }), 1)
    expect(textsOf(buffer.mark(1, marked({ refresh_id: 'r2' }), 1))).to.deep.equal(['ask p 1', 'ask p 2'])
  })

  it('releases what began before the reader did after the wait, when nothing else comes', () => {
    const buffer = openBuffer(LIMITS)
    buffer.change(changed({ item_id: 1 }))
    buffer.mark(1, marked(), 1_000)
    expect(buffer.release(1_499)).to.deep.equal([])
    expect(textsOf(buffer.release(1_500))).to.deep.equal(['ask p 1'])
  })

  it('keeps the order of an item when it meets the later of two refreshes first', () => {
    const buffer = openBuffer(LIMITS)
    const [earlier, later] = [
      { refresh_id: 'r1', seen_at: 1 },
      { refresh_id: 'r2', seen_at: 2 },
    ]
    buffer.change(changed({ item_id: 1, ...later }))
    buffer.change(changed({ item_id: 2, ...earlier }))
    buffer.change(changed({ item_id: 3, ...later }))
    buffer.mark(0, marked({ refresh_id: 'r2', last_updated: 2 }), 0)
    expect(textsOf(buffer.mark(1, marked({ refresh_id: 'r2', last_updated: 2 }), 0))).to.deep.equal([
      'ask p 2',
      'ask p 1 3',
    ])
  })

  it('holds no more of a refresh than allowed', () => {
    const buffer = openBuffer({ ...LIMITS, changesMax: 2 })
    expect(buffer.change(changed({ item_id: 1 }))).to.deep.equal([])
    expect(textsOf(buffer.change(changed({ item_id: 2 })))).to.deep.equal(['ask p 1 2'])
    buffer.change(changed({ item_id: 3 }))
    expect(buffer.held()).to.equal(1)
  })

  it('loses, doubles and reorders nothing of an item, however the partitions interleave', () => {
    fc.assert(
      fc.property(
        // Refreshes of one provider: the items that each of them changes. Item i lives in partition i % 3.
        fc.array(fc.uniqueArray(fc.integer({ min: 0, max: 8 }), { maxLength: 9 }), { maxLength: 6 }),
        fc.infiniteStream(fc.integer({ min: 0, max: 2 })),
        (refreshes, choices) => {
          const partitions = 3
          const queues = Array.from({ length: partitions }, (_, partition) =>
            refreshes.flatMap((items, at) => [
              ...items
                .filter(item => item % partitions === partition)
                .map(item_id => changed({ item_id, refresh_id: `r${at}`, seen_at: at })),
              marked({ refresh_id: `r${at}`, last_updated: at }),
            ]),
          )
          const buffer = openBuffer({ partitions, waitMs: 5, changesMax: 4 })
          const seen: string[] = []
          const note = (batches: ReleasedBatch[]) => {
            for (const { changes } of batches)
              for (const { item_id, refresh_id } of changes) seen.push(`${item_id} ${refresh_id}`)
          }
          for (let step = 0; queues.some(queue => queue.length > 0); step++) {
            const partition = choices.next().value as number
            const record = queues[partition]?.shift()
            if (record === undefined) continue
            if ('change' in record) note(buffer.change(record))
            else note(buffer.mark(partition, record, step))
            if (step % 7 === 0) note(buffer.release(step))
          }
          note(buffer.release(Number.POSITIVE_INFINITY))
          const expected = refreshes.flatMap((items, at) => items.map(item => `${item} r${at}`))
          expect([...seen].sort()).to.deep.equal([...expected].sort())
          for (let item = 0; item <= 8; item++) {
            const own = seen.filter(text => text.startsWith(`${item} `))
            expect(own).to.deep.equal([...own].sort())
          }
        },
      ),
    )
  })
})
