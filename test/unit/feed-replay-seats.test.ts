/** Seats of replays: which one reads, which one waits, and that all that wait come to read. */
import { expect } from 'chai'
import { openReplaySeats, type ReplaySeat } from '#services/feed/replay-seats.ts'

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
