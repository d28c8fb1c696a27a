import { expect } from 'chai'
import { collectGarbage } from '#infra/runtime/heap.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { type ItemText, openItemText } from '#services/feed/frames.ts'
import type { ChangeRun, OffsetRange } from '#services/feed/log-history.ts'
import { replayOf } from '#services/feed/replay.ts'
import { openReplaySeats, type ReplaySeat } from '#services/feed/replay-seats.ts'
import type { Beginner } from '#services/feed/stream-start.ts'
import { eventually } from '#test/harness/eventually.ts'
import { changed } from '#test/harness/published-records.ts'

const OPEN = new AbortController().signal

describe('the seats of replays', () => {
  it('are given in the order in which replays came, once each, and never more than there are', async () => {
    const seats = openReplaySeats(2, () => 0)
    const seated: number[] = []
    const held = new Map<number, ReplaySeat>()
    const asked = [0, 1, 2, 3].map(async replay => {
      held.set(replay, await seats.take(OPEN))
      seated.push(replay)
    })
    await Promise.all(asked.slice(0, 2))
    expect(seated).to.deep.equal([0, 1])
    held.get(0)?.release()
    // A seat that was given back already frees no other.
    held.get(0)?.release()
    await asked[2]
    expect(seated).to.deep.equal([0, 1, 2])
    held.get(1)?.release()
    await asked[3]
    expect(seated).to.deep.equal([0, 1, 2, 3])
  })

  it('are another replay`s turn when their time is over and one waits, and not before', async () => {
    let now = 0
    const seats = openReplaySeats(1, () => now)
    const seat = await seats.take(OPEN)
    now = 60_000
    expect(seat.isOver(), 'nobody waits').to.equal(false)
    const next = seats.take(OPEN)
    expect(seat.isOver(), 'one waits').to.equal(true)
    seat.release()
    const other = seats.take(OPEN)
    const given = await next
    expect(given.isOver(), 'just begun').to.equal(false)
    now += 5_000
    expect(given.isOver()).to.equal(true)
    given.release()
    ;(await other).release()
  })

  it('are not kept for a replay whose client has gone', async () => {
    const seats = openReplaySeats(1, () => 0)
    const seat = await seats.take(OPEN)
    const ending = new AbortController()
    const gone = seats.take(ending.signal).then(
      () => 'seated',
      error => error,
    )
    const next = seats.take(OPEN)
    ending.abort('gone')
    expect(await gone).to.equal('gone')
    seat.release()
    ;(await next).release()
    expect(await seats.take(ending.signal).catch(reason => reason)).to.equal('gone')
  })
})

describe('a replay', () => {
  const itemOf = (item_id: number) => ({ item_id, market_hash_name: `item ${item_id}`, phase: null }) as CatalogItem
  const subscription = { side: 'ask', itemIds: new Set(), names: new Set(), isFiltered: false }

  /** Replays some runs; `left` resolves when it has given its seat back. */
  function replaying(runs: (() => BookChanged[])[], speed: number, itemText?: ItemText) {
    async function* changes({ from: [from = 0] }: OffsetRange): AsyncGenerator<ChangeRun> {
      for (const [at, changesOf] of runs.entries()) if (at >= from) yield { changes: changesOf(), next: [at + 1] }
    }
    const ending = new AbortController()
    const [left, frames] = [Promise.withResolvers<void>(), [] as string[]]
    const stream = {
      send: (frame: Buffer) => frames.push(frame.toString()),
      drained: async () => true,
      end: () => undefined,
    }
    const beginner = { stream, ready: Buffer.from('ready'), subscription, signal: ending.signal } as unknown as Beginner
    const seats = { take: async () => ({ isOver: () => false, release: left.resolve }) }
    const history = { since: async () => ({ from: [0], to: [runs.length] }), changes }
    const needs = { history, seats, itemOf, itemText: itemText ?? openItemText() }
    const replay = replayOf({ from: 0, to: 10_000_000, speed }, needs, () => undefined)(beginner)
    return { frames, left: left.promise, ending, ended: replay.catch(error => error.name) }
  }

  it('keeps the frames alone of what waits for its time, where twenty of them kept 240 MB', async () => {
    const changes: WeakRef<object>[] = []
    const changeAt = (seen_at: number) => () => {
      const change = changed({ item_id: 1, seen_at })
      changes.push(new WeakRef(change))
      return [change]
    }
    const { frames, left, ending, ended } = replaying([changeAt(0), changeAt(3_600_000)], 1)
    await left
    const isGone = (): boolean => {
      collectGarbage()
      return changes.length === 2 && changes.every(change => change.deref() === undefined)
    }
    await eventually(isGone, 'what it has read to be gone')
    expect(frames).to.have.length(2)
    expect(frames[1]).to.include('"item_id":1')
    ending.abort()
    expect(await ended).to.equal('AbortError')
  })

  it('gives others their turn within a refresh, which held live streams for as long as it took', async () => {
    const refresh = Array.from({ length: 5_000 }, (_, item_id) => changed({ item_id, seen_at: 0 }))
    let [inTurn, most] = [0, 0]
    let waiting = setImmediate(function others() {
      inTurn = 0
      waiting = setImmediate(others)
    })
    const itemText: ItemText = ({ item_id }) => {
      most = Math.max(most, ++inTurn)
      return `{"item_id":${item_id}}`
    }
    const { frames, ended } = replaying([() => refresh], 0, itemText)
    await ended
    clearImmediate(waiting)
    expect(frames.join('').match(/"item_id"/g)).to.have.length(5_000)
    expect(most).to.equal(1_000)
  })
})
