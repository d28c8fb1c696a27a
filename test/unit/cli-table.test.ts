import { expect } from 'chai'
import { tableText, wantsTable } from '#services/cli/output.ts'

const COLUMNS = ['topic', 'readers', 'writer', 'key'].map((head, at) => {
  return { head, cell: (row: readonly string[]) => row[at] ?? '', spare: at > 1 }
})
const ROWS = [
  ['market.book-changes', 'live-view, candles and history', 'book', 'the id of the item, in decimal'],
  ['market.fx', 'fx', 'ingest', 'constant'],
]
const textOf = (columns: number, hasColors = false) => tableText({ columns, hasColors: () => hasColors }, COLUMNS, ROWS)
const widest = (text: string) => Math.max(...text.split('\n').map(line => line.length))

describe('a table on a terminal', () => {
  it('leaves spare columns out, the last first, and names them', () => {
    const text = textOf(50)
    expect(widest(text.split('left out')[0] ?? '')).to.be.at.most(50)
    expect(text)
      .to.include('writer')
      .and.match(/left out for want of width: key; --json has all\n$/)
    expect(textOf(42)).to.match(/left out for want of width: writer, key; --json has all\n$/)
  })

  it('takes a terminal of unknown width for one of 80 columns', () => {
    expect(tableText({}, COLUMNS, ROWS)).to.equal(textOf(80))
  })

  it('is for a terminal alone, and not for one that was asked for JSON', () => {
    expect([wantsTable({ isTTY: true }), wantsTable({}), wantsTable({ isTTY: true }, { json: true })]).to.deep.equal([
      true,
      false,
      false,
    ])
  })
})
