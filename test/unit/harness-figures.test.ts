/**
 * Figures of a run: held to their limits, and kept also when they are beyond them.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { expectFigure, type Figure, keepFigures } from '#test/harness/figures.ts'

describe('a figure', () => {
  let folder: string
  let environment: NodeJS.ProcessEnv
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'marketlog-figures-test-'))
    environment = { MARKETLOG_TEST_NOTES: folder }
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))
  const figure = (value: number, limit: Figure['limit']): Figure => ({
    test: 'outage',
    what: 'catch-up',
    value,
    unit: 's',
    limit,
  })

  it('fails beyond its limit, and where there is none', () => {
    const note = (value: number, limit: Figure['limit']) => expectFigure(figure(value, limit), environment)
    note(5, { atMost: 5 })
    note(5, { atLeast: 5 })
    expect(() => note(5.1, { atMost: 5 })).to.throw('outage: catch-up 5.10 s (at most 5)')
    expect(() => note(4.9, { atLeast: 5 })).to.throw('outage: catch-up 4.90 s (at least 5)')
    expect(() => note(Number.NaN, { atMost: 5 })).to.throw('NaN')
  })

  it('is kept in one file of the run, also when it is beyond its limit', () => {
    keepFigures(environment, folder)
    expect(existsSync(join(folder, 'fault-figures.json'))).to.equal(false)
    const figures = [figure(1, { atMost: 5 }), figure(9, { atMost: 5 })]
    for (const one of figures) {
      try {
        expectFigure(one, environment)
      } catch {
        expect(one.value).to.equal(9)
      }
    }
    keepFigures(environment, folder)
    expect(JSON.parse(readFileSync(join(folder, 'fault-figures.json'), 'utf8'))).to.deep.equal(figures)
  })
})
