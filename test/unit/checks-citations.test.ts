/**
 * Citations: a document, section, path or command that the repository lacks is named with its line, all others pass.
 */
import { expect } from 'chai'
import { findLostCitations, findLostReferences } from '#infra/checks/citations.ts'

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

describe('paths and commands in documents', () => {
  const PATHS = ['Makefile', 'services/cli/tools.ts', 'streams/candles/step.ts', 'streams/README.md', 'README.md']
  const FILES = [
    { path: 'Makefile', text: '.PHONY: demo\ndemo: installed\n\t@exec node services/cli/tools.ts\n' },
    { path: 'package.json', text: '{"scripts":{"test:unit":"mocha"}}' },
    {
      path: 'services/cli/tools.ts',
      text: [
        "program\n  .command('run')\n  .description('')\n",
        "program\n  .command('keys')\n  .description('')\n  .command('create')\n",
        "const letters = program.command('letters').description('')\nchoose(letters.command('list'))\n",
      ].join('\n'),
    },
  ]
  const referencesLostIn = (text: string, path = 'README.md'): string[] =>
    findLostReferences([...FILES, { path, text }], PATHS).map(({ line, rule }) => `${rule} ${line}`)
  const path = ['missing-path 1']
  const command = ['missing-command 1']
  const block = (language: string, line: string) => `\`\`\`${language}\n${line}\n\`\`\`\n`

  const cases: { name: string; text: string; file?: string; lost?: string[] }[] = [
    { name: 'a file by its path', text: 'See `streams/candles/step.ts`.' },
    { name: 'a file by its name', text: 'See `step.ts`.' },
    { name: 'a folder', text: 'See `streams/candles/` and `streams/candles`.' },
    { name: 'a folder beside the document', file: 'streams/README.md', text: '| `candles/` | x |' },
    { name: 'a link from the folder of the document', file: 'streams/README.md', text: '[x](candles/step.ts#l1)' },
    { name: 'a link to another site', text: '[a](https://example.com/a.md)' },
    { name: 'a link to a section', text: '[a](#set-up-first) [b](README.md#set-up-first)\n\n## Set-up, first\n' },
    {
      name: 'a placeholder',
      text: '`streams/<view>/step.ts`, `streams/VIEW/step.ts`, `FILE.test.ts`, `streams/*/step.ts`',
    },
    { name: 'data of a run', text: '`.run/platform.json`' },
    { name: 'a route and a media type', text: '`/prices/history/` and `application/json`' },
    { name: 'a path in a block of code', text: block('text', 'streams/gone/step.ts') },
    {
      name: 'commands',
      text: '`make demo`, `npm run test:unit`, `npx marketlog keys create --tier T`, `marketlog run book`',
    },
    {
      name: 'commands of a block',
      text: block('sh', 'PORT=1 make demo && npx marketlog letters list | cat # make up'),
    },
    { name: 'the word make in prose and in other blocks', text: `make sure\n${block('text', 'make sure')}` },
    { name: 'a lost file', text: 'See `streams/candles/sink.ts`.', lost: path },
    { name: 'a lost file by its name', text: 'See `sink.ts`.', lost: path },
    { name: 'a lost folder', text: 'See `gone/`.', lost: path },
    { name: 'a lost folder of a room', text: 'See `streams/gone`.', lost: path },
    { name: 'a lost link', text: '[x](candles/step.ts)', lost: path },
    { name: 'a link to a lost section', text: '[b](#set-up)\n\n## Set-up, first\n', lost: ['missing-section 1'] },
    { name: 'a lost target of make', text: '`make up`', lost: command },
    { name: 'a lost script', text: '`npm run bench`', lost: command },
    { name: 'a lost command', text: '`npx marketlog tail TOPIC`', lost: command },
    { name: 'a lost command of a group', text: '`marketlog keys list`', lost: command },
    { name: 'a command of a group on its own', text: '`marketlog create`', lost: command },
    { name: 'a lost command of a block', text: block('sh', 'PORT=1 make up'), lost: ['missing-command 2'] },
  ]
  for (const { name, text, file, lost = [] } of cases)
    it(`${lost.length === 0 ? 'let pass' : 'name'} ${name}`, () => {
      expect(referencesLostIn(text, file)).to.deep.equal(lost)
    })
})
