/** Work of large answers, which used to hold the event loop from its begin to its end: it pauses. */
import { expect } from 'chai'
import { inTurns } from '#infra/runtime/turns.ts'

describe('work that pauses', () => {
  it('gives others their turn at each pause, and its result at the end', async () => {
    const seen: string[] = []
    function* work(): Generator<undefined, string, void> {
      for (const part of ['one', 'two']) {
        seen.push(part)
        setImmediate(() => seen.push(`after ${part}`))
        yield
      }
      return 'result'
    }
    expect(await inTurns(work())).to.equal('result')
    expect(seen).to.deep.equal(['one', 'after one', 'two', 'after two'])
  })

  it('has one part in each turn, however many there are', async () => {
    let seen = ''
    function* work(name: string): Generator<undefined, void, void> {
      for (let part = 0; part < 3; part++) {
        seen += name
        yield
      }
    }
    let waiting = setImmediate(function others() {
      seen += '.'
      waiting = setImmediate(others)
    })
    await Promise.all([inTurns(work('a')), inTurns(work('b')), inTurns(work('c'))])
    clearImmediate(waiting)
    expect(seen.replaceAll('.', '')).to.equal('abcabcabc')
    expect(seen.slice('abc'.length)).not.to.match(/\w\w/)
  })
})
