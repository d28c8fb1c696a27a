import { expect } from 'chai'
import fc from 'fast-check'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { Subscription } from '#services/feed/hub.ts'
import {
  covers,
  decodePosition,
  encodePosition,
  intersectionOf,
  type LogPosition,
  unionOf,
} from '#services/feed/log-position.ts'
import { openReadingGroup } from '#services/feed/reading-group.ts'
import { batchesOf, changesFrom, expectEachOnce, type Log, logs, PARTITIONS, START } from '#test/fixtures/feed-logs.ts'

interface Client extends Subscription {
  received: string[]
  at: LogPosition
  /** Batches of the shared reading that go by before it comes. */
  comesAfter: number
  /** Events after which it breaks off. */
  most: number
}

const itemOf = (item_id: number) => ({ item_id, market_hash_name: `item ${item_id}`, phase: null }) as CatalogItem

interface Wanted {
  /** Changes that it has when it comes. */
  has: number
  comesAfter: number
  most: number
  items: number[] | undefined
}

const wanted: fc.Arbitrary<Wanted> = fc.record({
  has: fc.nat(20),
  comesAfter: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(6)),
  most: fc.oneof({ weight: 3, arbitrary: fc.constant(Number.POSITIVE_INFINITY) }, fc.nat(6)),
  items: fc.option(fc.uniqueArray(fc.nat(8), { minLength: 1, maxLength: 4 }), { nil: undefined }),
})
const choices = fc.infiniteStream(fc.nat(PARTITIONS - 1))

/** An id as a client keeps it. */
const kept = (position: LogPosition) => decodePosition(encodePosition(position, 's'), 's', PARTITIONS) as LogPosition
const wants = ({ isFiltered, itemIds }: Client, itemId: number) => !isFiltered || itemIds.has(itemId)

/** A client that received the first `has` changes by a stream of its own. */
function clientOf(log: Log, order: Iterator<number>, { has, comesAfter, most, items }: Wanted) {
  const client: Client = {
    side: 'ask',
    providers: undefined,
    itemIds: new Set(items),
    names: new Set(),
    isFiltered: items !== undefined,
    received: [],
    at: START,
    comesAfter,
    most,
  }
  goOn(log, order, client, has)
  return client
}

/** Delivers so many more changes to a client from where it left off. */
function goOn(log: Log, order: Iterator<number>, client: Client, count = Number.POSITIVE_INFINITY): void {
  let left = count
  for (const { text, position } of changesFrom(log, order, client.at)) {
    if (left-- <= 0) return
    if (wants(client, Number(text.split(' ')[1]))) client.received.push(text)
    client.at = kept(position())
  }
}

/** The changes of a frame: its refresh is known by its moment. */
function textsOf(frame: Buffer): string[] {
  const { provider, seen_at, items } = JSON.parse(frame.toString().split('data: ')[1] as string)
  return items.map(({ item_id }: { item_id: number }) => `${provider} ${item_id} r${Date.parse(seen_at)}`)
}

describe('a reading that many share', () => {
  /** Reads for clients of a seed, or random ones; returns how many frames several shared and how many clients broke off. */
  function read(options: { numRuns: number; seed?: number }): { shared: number; cut: number } {
    let [shared, cut] = [0, 0]
    fc.assert(
      fc.property(logs, choices, fc.array(wanted, { minLength: 1, maxLength: 6 }), (log, order, some) => {
        const clients = some.map(one => clientOf(log, order, one))
        const group = openReadingGroup<Client>('ask', itemOf)
        const members = new Set<Client>()
        const waiting = new Set(clients)
        const first = clients.filter(({ comesAfter }) => comesAfter === 0)
        let at = first.map(client => client.at).reduce(intersectionOf, (first[0] ?? (clients[0] as Client)).at)
        let turn = 0
        const comeIn = () => {
          for (const client of waiting) {
            if (client.comesAfter > turn || !covers(client.at, at)) continue
            waiting.delete(client)
            members.add(client)
            group.add(client, client.at, at)
          }
        }
        comeIn()
        for (const batch of batchesOf(log, order, at)) {
          for (const { frame, to, position } of group.deliver(batch)) {
            for (const client of to) {
              if (!members.has(client)) continue
              if (to.length > 1) shared += 1
              client.received.push(...textsOf(frame))
              client.at = kept(position())
              if (--client.most > 0) continue
              members.delete(client)
              group.remove(client)
              cut += 1
            }
          }
          at = batch.positionAfter(batch.changes.length)
          for (const client of members) client.at = group.positionOf(client, at)
          group.advance(at)
          turn += 1
          comeIn()
        }
        for (const client of clients) {
          if (!members.has(client)) goOn(log, order, client)
          expectEachOnce(log, client.received, itemId => wants(client, itemId))
        }
      }),
      options,
    )
    return { shared, cut }
  }

  it('delivers to each exactly what it lacks, whenever it comes, and gives ids from which it can break off', () => {
    const { shared, cut } = read({ seed: 1, numRuns: 500 })
    expect(shared, 'frames for several').to.be.above(100)
    expect(cut, 'clients that broke off').to.be.above(50)
    read({ numRuns: 500 })
  })
})

describe('positions that are merged', () => {
  it('hold what either holds, or what both hold', () => {
    const counts = fc.tuple(fc.nat(30), fc.nat(30))
    fc.assert(
      fc.property(logs, choices, choices, counts, (log, order, other, [some, more]) => {
        const one = clientOf(log, order, { has: some, comesAfter: 0, most: 0, items: undefined })
        const two = clientOf(log, other, { has: more, comesAfter: 0, most: 0, items: undefined })
        const [both, either] = [intersectionOf(one.at, two.at), unionOf(one.at, two.at)]
        const restOf = (from: LogPosition) => [...changesFrom(log, order, from)].map(({ text }) => text).sort()
        const [rest, otherRest] = [restOf(one.at), restOf(two.at)]
        expect(restOf(both)).to.deep.equal([...new Set([...rest, ...otherRest])].sort())
        expect(restOf(either)).to.deep.equal(rest.filter(text => otherRest.includes(text)))
        expect([covers(one.at, both), covers(either, two.at)]).to.deep.equal([true, true])
      }),
      { numRuns: 300 },
    )
  })
})
