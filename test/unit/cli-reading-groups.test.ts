import { expect } from 'chai'
import { topics } from '#schemas/topics.ts'
import { describeLag, sumByGroup } from '#services/cli/lag.ts'
import { readingGroups } from '#services/cli/reading-groups.ts'

describe('reading groups', () => {
  const groups = readingGroups()
  const stageOf = (group: string) => groups.filter(each => each.group === group).map(each => each.stage)

  it('hold every stream once per topic that it reads with a group', () => {
    const named = groups.map(each => `${each.group}:${topics[each.topic].name}`)
    expect(new Set(named).size).to.equal(named.length)
    expect(named).to.include.members(['book:market.quotes', 'book:market.bids', 'live-view:market.book-changes'])
  })

  it('leave out who reads without a group, and tables that are kept in memory', () => {
    expect(groups.map(each => each.group)).not.to.include.members(['api'])
    expect(groups.map(each => each.group)).not.to.include.members(['feed'])
    expect(groups.filter(each => topics[each.topic].retention.policy === 'compact')).to.deep.equal([])
    // It reads the changes with a group, and the rates in every process.
    expect(groups.filter(each => each.group === 'alert-triggers').map(each => each.topic)).to.deep.equal([
      'bookChanges',
    ])
  })

  it('put what reads derived topics after what derives them', () => {
    expect(stageOf('book')).to.deep.equal([0, 0])
    const derived = groups.filter(each => each.topic === 'bookChanges' || each.topic === 'refreshes')
    expect(derived.map(each => each.group)).to.include.members(['live-view', 'candles', 'provider-health'])
    expect(new Set(derived.map(each => each.stage))).to.deep.equal(new Set([1]))
    expect(Math.min(...stageOf('alerts'))).to.be.greaterThan(Math.min(...stageOf('alert-triggers')))
    expect(groups.map(each => each.stage)).to.deep.equal(groups.map(each => each.stage).sort((a, b) => a - b))
  })
})

describe('lag', () => {
  const at = (group: string, partition: number, lag: number) => ({
    group,
    topic: `topic of ${group}`,
    partition,
    position: 10,
    end: 10 + lag,
    lag,
    note: '',
  })

  it('is summed over the partitions of a group and topic', () => {
    const expected = [
      { group: 'book', topic: 'topic of book', partitions: 3, behind: 2, lag: 7 },
      { group: 'history', topic: 'topic of history', partitions: 1, behind: 0, lag: 0 },
    ]
    expect(sumByGroup([at('book', 0, 2), at('history', 0, 0), at('book', 1, 0), at('book', 2, 5)])).to.deep.equal(
      expected,
    )
  })

  it('reads as one short line', () => {
    expect(describeLag([at('book', 0, 12_000), at('book', 1, 345), at('history', 0, 1)])).to.equal(
      'book 12,345 behind, history 1 behind',
    )
  })
})
