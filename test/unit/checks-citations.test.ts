/**
 * Citations: one of a document or section that the repository lacks is named with its line, all others pass.
 */
import { expect } from 'chai'
import { findLostCitations } from '#infra/checks/citations.ts'

const GUIDE = {
  path: 'schemas/api/GUIDE.md',
  text: '# Guide\n\n## Set-up\n\n```sh\n# no heading\n```\n\n## Order of `checks`\n',
}

const lostIn = (path: string, text: string): string[] =>
  findLostCitations([GUIDE, { path, text }]).map(({ file, line, rule }) => `${rule} ${file}:${line}`)

describe('citations', () => {
  const cases: { name: string; path?: string; text: string; lost?: string[] }[] = [
    { name: 'a document by its path', text: '/** Rules: schemas/api/GUIDE.md. */\n' },
    { name: 'a document by its name alone', text: '// Rules: GUIDE.md\n' },
    { name: 'a document by the end of its path', text: '// Rules: api/GUIDE.md\n' },
    { name: 'a document beside the file', path: 'schemas/api/a.ts', text: '// Rules: ./GUIDE.md\n' },
    { name: 'a document below the folder above', path: 'schemas/views/a.ts', text: '// Rules: ../api/GUIDE.md\n' },
    { name: 'a section', text: '/** As the rules have it (GUIDE.md, "Set-up"). */\n' },
    { name: 'a section without a comma', text: '/** Rules: GUIDE.md "Set-up". */\n' },
    { name: 'two sections', text: '/** Rules: GUIDE.md, "Set-up" and "Order of checks". */\n' },
    { name: 'a section that goes on in the next line', text: '/**\n * Rules: GUIDE.md, "Order\n * of checks".\n */\n' },
    { name: 'quoted words that do not follow the document', text: '/** GUIDE.md calls it "early". */\n' },
    { name: 'a name in code', text: "read('GONE.md')\n" },
    { name: 'an address', text: '// See https://example.com/GONE.md.\n' },
    { name: 'a pattern of names', text: '// Reads *.md.\n' },
    { name: 'a link of Markdown', path: 'README.md', text: 'See [the guide](schemas/api/GUIDE.md#set-up).\n' },
    { name: 'a name in a code block of Markdown', path: 'README.md', text: '```sh\ncat GONE.md\n```\n' },
    { name: 'a lost document', text: '// Rules: GONE.md.\n', lost: ['missing-document a.ts:1'] },
    { name: 'a lost document in a folder', text: '// Rules: spec/GUIDE.md.\n', lost: ['missing-document a.ts:1'] },
    { name: 'a lost document after code', text: `a() ${'//'} GONE.md\n`, lost: ['missing-document a.ts:1'] },
    {
      name: 'a lost document in a script',
      path: 'services/cli/a.sh',
      text: 'set -eu\n# Rules: GONE.md\n',
      lost: ['missing-document services/cli/a.sh:2'],
    },
    {
      name: 'a lost document in Markdown',
      path: 'README.md',
      text: '# Title\n\nSee `GONE.md`.\n',
      lost: ['missing-document README.md:3'],
    },
    { name: 'a lost section', text: '// Rules: GUIDE.md, "Tear-down".\n', lost: ['missing-section a.ts:1'] },
    {
      name: 'a lost section among others, by the line of its document',
      text: '/**\n * One.\n *\n * Rules: GUIDE.md, "Set-up",\n * "Tear-down".\n */\n',
      lost: ['missing-section a.ts:4'],
    },
    { name: 'a section in part', text: '// Rules: GUIDE.md, "Order".\n', lost: ['missing-section a.ts:1'] },
    { name: 'a line of code as a section', text: '// GUIDE.md, "no heading"\n', lost: ['missing-section a.ts:1'] },
  ]
  for (const { name, path = 'a.ts', text, lost = [] } of cases)
    it(`${lost.length === 0 ? 'let pass' : 'name'} ${name}`, () => {
      expect(lostIn(path, text)).to.deep.equal(lost)
    })
})
