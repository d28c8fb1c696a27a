import { expect } from 'chai'
import { decide, openReadJudge } from '#streams/runner/positions.ts'

describe('a stored position', () => {
  const log = { topicId: 'A', start: 100, end: 200 }
  const decided = (next: number, topicId = 'A') => {
    const decision = decide({ topicId, next }, log)
    return decision.kind === 'stop' ? decision.fault : decision
  }

  it('is gone on from anywhere within the log of its topic', () => {
    for (const next of [100, 150, 200]) expect(decided(next)).to.deep.equal({ kind: 'resume', next })
  })

  it('is not gone on from in another topic of the name, whatever offsets that has', () => {
    for (const next of [0, 100, 150, 200, 300])
      expect(decided(next, 'B')).to.equal('the position is of the topic with id B, which was deleted; its id is A now')
  })

  it('is not gone on from beyond the end of the log', () => {
    expect(decided(201)).to.equal('the position is 201, and the log ends at 200')
  })

  it('is not gone on from where records have expired unread, which are named and counted', () => {
    expect(decided(60)).to.equal('40 records from 60 to 100 have expired unread')
  })

  it('that is none means to build', () => {
    expect(decide(undefined, log)).to.deep.equal({ kind: 'build' })
  })

  it('that is behind one that a reader has seen means that the store was set back, until it is there again', () => {
    const judge = openReadJudge()
    expect([9, 5, 8, 9, 12].map(next => judge({ topicId: 'A', next }))).to.deep.equal([
      undefined,
      'it is at 5, and was at 9',
      'it is at 8, and was at 9',
      undefined,
      undefined,
    ])
  })

  it('is not compared over topics', () => {
    const judge = openReadJudge()
    for (const found of [
      { topicId: 'A', next: 9 },
      { topicId: 'B', next: 0 },
    ])
      expect(judge(found)).to.equal(undefined)
  })
})
