/** The page of the Python package and its notebooks, run as a reader runs them, on the demo. */
import { globSync, mkdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { expect } from 'chai'
import {
  describeWithPython,
  openPythonPackage,
  PYTHON_ROOM,
  type PythonPackage,
  type PythonProgram,
} from '#test/fixtures/python-package.ts'
import { within } from '#test/harness/eventually.ts'
import { type OwnPlatform, prepareOwnPlatform } from './own-platform.ts'

const START_LIMIT_MS = 600_000
const RUN_LIMIT_MS = 300_000
const NOTEBOOKS = globSync(join(dirname(PYTHON_ROOM), 'notebooks/*.ipynb')).toSorted()
/** Where notebooks are kept with what they drew. */
const DRAWN = process.env.MARKETLOG_TEST_LOGS ?? '.run/test-log'

describeWithPython('the demo, to a reader of the Python package,', function () {
  this.timeout(START_LIMIT_MS)
  let demo: OwnPlatform
  let own: PythonPackage

  before(async () => {
    own = await openPythonPackage()
    demo = await prepareOwnPlatform('demo')
    const { code, stderr } = await demo.up()
    expect(code, stderr).to.equal(0)
  })
  after(async () => {
    await demo?.remove()
    own?.close()
  })

  /** Runs a program to its end; resolves with the lines that it printed. */
  async function ran(program: string, ...args: string[]): Promise<PythonProgram['lines']> {
    const { base_url, keys } = demo.platform()
    const running = own.start(program, args, {
      HOME: own.folder,
      MARKETLOG_URL: base_url,
      MARKETLOG_KEY: keys.quant,
      // The kernel of notebooks is deprecating things of its own; a warning in a cell is an output, which is looked at.
      PYTHONWARNINGS: program === 'run_notebook.py' ? 'default' : 'error',
    })
    try {
      const code = await within(running.ended, `the end of ${program}`, RUN_LIMIT_MS)
      expect(code, running.complaints()).to.equal(0)
    } finally {
      await running.stop()
    }
    return running.lines
  }

  it('runs every snippet of the page', async () => {
    const lines = await ran('run_readme.py', join(PYTHON_ROOM, 'README.md'), demo.platform().base_url)
    const snippets = lines.slice(0, -1)
    expect(snippets).to.have.length.above(8)
    const printed = snippets.map(({ printed }) => printed).join('')
    for (const text of ['USD', 'Case', 'lowest_ask', 'unknown', '404 ITEM_NOT_FOUND']) expect(printed).to.include(text)
    expect(lines.at(-1)).to.deep.equal({ receives: [204, 401] })
  })

  it('has notebooks', () => expect(NOTEBOOKS.map(file => basename(file))).to.have.length(3))

  for (const file of NOTEBOOKS)
    it(`runs ${basename(file)}, whose outputs are not in the repository`, async () => {
      mkdirSync(DRAWN, { recursive: true })
      const [outcome] = await ran('run_notebook.py', file, join(DRAWN, basename(file)))
      expect(outcome.warnings).to.deep.equal([])
      expect(outcome.cleared).to.equal(true)
      expect(outcome.pictures).to.be.at.least(3)
    })
})
