import { expect } from 'chai'
import { type KeyState, PAGES_BY_LETTER, step } from '#services/console/src/frame/keyboard.ts'

/** What keys lead to, one after the other; those of a text field are marked by a point before them. */
const follow = (...keys: string[]): (string | undefined)[] => {
  let state: KeyState = { isGoing: false }
  return keys.map(key => {
    const isText = key.length > 1 && key.startsWith('.')
    state = step(state, { key: isText ? key.slice(1) : key, isText })
    return state.shortcut
  })
}

describe('the keyboard', () => {
  it('leads to search by /, to help by ?, and to a page by g and its letter', () => {
    expect(follow('/', '?')).to.deep.equal(['search', 'help'])
    for (const [letter, page] of Object.entries(PAGES_BY_LETTER))
      expect(follow('g', letter)).to.deep.equal([undefined, page])
  })

  it('takes a letter for a page right after g alone', () => {
    expect(follow('b', 'g', 'z', 'b', 'g', 'g', 'b')).to.deep.equal([...Array(6).fill(undefined), 'board'])
  })

  it('leaves what is typed into a field alone', () => {
    expect(follow('./', '.g', '.b', 'b', 'g', '.x', 'b')).to.deep.equal(Array(7).fill(undefined))
  })
})
