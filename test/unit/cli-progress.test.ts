/** The steps end at once, so no time passes. */
import { expect } from 'chai'
import { openProgress } from '#services/cli/progress.ts'

const CLEAR_LINE = '\r\u001b[K'

const streamOf = (isTTY: boolean, columns?: number) => {
  const written: string[] = []
  /** Clearing the line reads as `<clear>`. */
  const write = (text: string) => written.push(text.replaceAll(CLEAR_LINE, '<clear>'))
  return { isTTY, columns, written, write }
}

describe('progress', () => {
  it('prints nothing of short steps to a pipe, and every note', () => {
    const stream = streamOf(false)
    const progress = openProgress(stream)
    progress.step('one')
    progress.note('a note')
    progress.step('two')
    progress.stop()
    expect(stream.written).to.deep.equal(['a note\n'])
  })

  for (const [columns, longest] of [
    [20, 19],
    [0, 79],
  ] as const) {
    it(`never lets a line wrap on a terminal of ${columns} columns`, () => {
      const stream = streamOf(true, columns)
      const progress = openProgress(stream)
      progress.step('x'.repeat(200))
      progress.stop()
      expect(stream.written[0]?.replace('<clear>', '')).to.have.length(longest)
    })
  }
})
