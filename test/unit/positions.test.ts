import { expect } from 'chai'
import { decide, openReadJudge } from '#streams/runner/positions.ts'

describe('a stored position', () => {
  const deleted = 'the position is of the topic with id B, which was deleted; its id is A now'
  for (const [name, topicId, next, decision] of [
    ...[100, 150, 200].map(next => ['is gone on from within the log of its topic', 'A', next, next] as const),
    ...[0, 100, 150, 200, 300].map(
      next => ['is not gone on from in another topic of the name', 'B', next, deleted] as const,
    ),
    ['is not gone on from beyond the end', 'A', 201, 'the position is 201, and the log ends at 200'],
    ['is not gone on from where records expired', 'A', 60, '40 records from 60 to 100 have expired unread'],
  ] as const)
    it(`${name}: ${next} of ${topicId}`, () => {
      const found = decide({ topicId, next }, { topicId: 'A', start: 100, end: 200 })
      expect(found.kind === 'stop' ? found.fault : found.kind === 'resume' && found.next).to.equal(decision)
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
