import { expect } from 'chai'
import fc from 'fast-check'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { openDeliveryPolicy } from '#services/feed/delivery-policy.ts'
import type { EventStream } from '#services/feed/event-stream.ts'
import { changesFrames, type ItemsFrame, openItemText } from '#services/feed/frames.ts'
import { changed } from '#test/harness/published-records.ts'

const MUCH = 2 ** 20
const ROW_BYTES = 256
const ITEMS = {
  itemOf: (item_id: number) => ({ item_id, market_hash_name: `Item ${item_id}`, phase: null }) as CatalogItem,
  itemText: openItemText(),
}
const CONFLATING = {
  options: { resume: false, snapshot: false, conflate: true },
  subscription: {
    side: 'ask',
    providers: undefined,
    itemIds: new Set<number>(),
    names: new Set<string>(),
    isFiltered: false,
  },
} as const

/** Applies an event as a client does that trusts every one. */
function apply(state: Map<string, number>, frame: Buffer): void {
  const [, data = ''] = /\ndata: (.+)\n\n$/.exec(frame.toString()) ?? []
  const { provider, items } = JSON.parse(data)
  for (const { item_id, change, qty } of items) {
    const key = `${provider} ${item_id}`
    expect(state.has(key), `${change} of ${key}`).to.equal(change !== 'added')
    if (change === 'removed') state.delete(key)
    else state.set(key, qty)
  }
}

/** A stream whose unread bytes the test says. */
function openTestStream(onFrame: (frame: Buffer) => void) {
  let drain = (): void => undefined
  const stream = {
    unread: 0,
    waiting: () => stream.unread,
    send(frame: Buffer) {
      onFrame(frame)
      return 'queued'
    },
    giveUp: () => 'too_slow',
    onDrain(call: () => void) {
      drain = call
    },
    drained() {
      stream.unread = 0
      drain()
    },
  }
  return stream
}

/** Changes of a few rows, one at a time, each followed by what its client reads. */
function* changesOf(steps: readonly { provider: string; item: number; goes: boolean; reads: string }[]) {
  const listed = new Set<string>()
  for (const [at, { provider, item, goes, reads }] of steps.entries()) {
    const key = `${provider} ${item}`
    const change = !listed.has(key) ? ('added' as const) : goes ? ('removed' as const) : ('updated' as const)
    if (change === 'removed') listed.delete(key)
    else listed.add(key)
    yield { one: changed({ provider, item_id: item, change, quantity: at + 1, seen_at: at }), reads }
  }
}

const reads = fc.constantFrom('nothing', 'some', 'all')
const plans = fc.array(fc.record({ provider: fc.constantFrom('p', 'q'), item: fc.nat(3), goes: fc.boolean(), reads }), {
  maxLength: 60,
})

const policyOf = (stream: unknown, capBytes: number) =>
  openDeliveryPolicy(stream as EventStream, CONFLATING, { ...ITEMS, capBytes })
function eventOf(change: BookChanged) {
  const [frame] = [...changesFrames('ask', [change], ITEMS)]
  const { bytes } = frame as ItemsFrame
  return { bytes, identified: () => expect.fail('it has no id'), changes: () => [change] }
}

describe('conflation', () => {
  it('leads to the same state, in steps that fit it and in their order, however slowly its client reads', () => {
    fc.assert(
      fc.property(plans, steps => {
        const [whole, conflated] = [new Map<string, number>(), new Map<string, number>()]
        const stream = openTestStream(frame => apply(conflated, frame))
        const policy = policyOf(stream, MUCH)
        for (const { one, reads } of changesOf(steps)) {
          const event = eventOf(one)
          apply(whole, event.bytes)
          policy(event)
          if (reads === 'all') stream.drained()
          else stream.unread = reads === 'some' ? 1 : MUCH
        }
        stream.drained()
        expect(conflated).to.deep.equal(whole)
      }),
      { numRuns: 500 },
    )
  })

  it('gives a stream up whose rows have no more room, of which each takes one', () => {
    const stream = openTestStream(() => undefined)
    stream.unread = MUCH
    const policy = policyOf(stream, 2 * ROW_BYTES)
    const outcomes = [1, 1, 2, 3].map(item_id => policy(eventOf(changed({ item_id }))))
    expect(outcomes).to.deep.equal(['queued', 'queued', 'queued', 'too_slow'])
  })
})
