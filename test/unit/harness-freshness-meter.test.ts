/**
 * The meter of a price's freshness: a path that stops is noticed while it does.
 */
import { expect } from 'chai'
import { openFreshnessMeter } from '#test/fault/freshness-meter.ts'

describe('freshness meter', () => {
  const openAt = (start = 0) => {
    let now = start
    const meter = openFreshnessMeter(() => now)
    const publish = (acknowledgedMs = 0): void => {
      meter.published()
      now += acknowledgedMs
      meter.acknowledged()
    }
    const seenAfter = (ms: number, ...paths: ('restMs' | 'feedMs')[]): void => {
      now += ms
      for (const path of paths) meter.seen(path)
    }
    return { meter, publish, seenAfter, pass: (ms: number) => seenAfter(ms) }
  }

  it('returns the slowest value of each path since it was asked last', () => {
    const { meter, publish, seenAfter } = openAt()
    publish()
    seenAfter(30, 'restMs')
    seenAfter(20, 'feedMs')
    publish()
    seenAfter(10, 'feedMs', 'restMs')
    expect(meter.taken(2)).to.deep.equal({ values: 2, restMs: 30, feedMs: 50 })
    publish()
    seenAfter(5, 'feedMs', 'restMs')
    expect(meter.taken(1)).to.deep.equal({ values: 1, restMs: 5, feedMs: 5 })
  })

  it('counts the age of a value that waits', () => {
    const { meter, publish, seenAfter, pass } = openAt()
    publish()
    seenAfter(10, 'feedMs', 'restMs')
    publish()
    seenAfter(40, 'feedMs')
    pass(8_000)
    expect(meter.taken(1)).to.deep.equal({ values: 1, restMs: 8_040, feedMs: 40 })
    expect(meter.taken(0), 'which goes on').to.deep.equal({ values: 0, restMs: 8_040, feedMs: 0 })
  })

  it('counts the age of a value that the log does not take', () => {
    const { meter, pass } = openAt()
    meter.published()
    pass(7_000)
    expect(meter.taken(0)).to.deep.equal({ values: 0, restMs: 7_000, feedMs: 7_000 })
  })

  it('fails where fewer values came than were promised', () => {
    const { meter, publish, pass } = openAt()
    publish()
    pass(3_000)
    expect(() => meter.taken(1)).to.throw('0 values, 3.0 s to REST and 3.0 s to the feed at most, where 1 were to come')
  })

  it('fails for ever after a value that never came', () => {
    const { meter, publish, seenAfter } = openAt()
    publish()
    seenAfter(10, 'feedMs', 'restMs')
    meter.fail(new Error('waited 10 s'))
    for (let time = 0; time < 2; time++) expect(() => meter.taken(0)).to.throw('waited 10 s')
  })

  it('does not wait for a path that is not watched, and does again once it is', () => {
    const { meter, publish, seenAfter, pass } = openAt()
    publish()
    pass(100)
    meter.watch(['feedMs'])
    expect([meter.isAwaited('restMs'), meter.isAwaited('feedMs')]).to.deep.equal([false, true])
    seenAfter(50, 'feedMs')
    publish()
    seenAfter(20, 'feedMs')
    expect(meter.taken(2)).to.deep.equal({ values: 2, restMs: 0, feedMs: 150 })
    meter.watch(['restMs', 'feedMs'])
    publish()
    expect(meter.isAwaited('restMs')).to.equal(true)
  })
})
