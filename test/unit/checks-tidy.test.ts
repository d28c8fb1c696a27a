/**
 * Tidiness: each rule is given a tree that breaks it and must name it; a tidy tree passes.
 */
import { expect } from 'chai'
import { longFunctions } from '#infra/checks/function-length.ts'
import { checkTidiness } from '#infra/checks/tidy.ts'
import { withTree } from '#test/harness/source-tree.ts'

const HEADER = '/**\n * Says what it is for.\n *\n * Reads and writes nothing.\n */\n'
const STARTED = JSON.stringify({ scripts: { start: 'node infra/kafka/start.ts' } })
const TIDY = { 'package.json': STARTED, 'infra/kafka/start.ts': `${HEADER}export const a = 1\n` }

const rulesBrokenBy = (files: Record<string, string>): Promise<string[]> =>
  withTree({ ...TIDY, ...files }, root => checkTidiness(root).map(({ rule, file }) => `${rule} ${file}`))

/** A started file with the given body. */
const started = (body: string) => ({ 'infra/kafka/start.ts': HEADER + body })
const lines = (count: number) => 'a()\n'.repeat(count)

describe('tidiness', () => {
  const cases: { name: string; files: Record<string, string>; broken: string[] }[] = [
    { name: 'a tidy tree', files: {}, broken: [] },
    { name: 'a stray file at the top', files: { 'notes.md': '' }, broken: ['top-level notes.md'] },
    {
      name: 'a file that nothing reaches',
      files: { 'infra/kafka/lonely.ts': HEADER },
      broken: ['dead-file infra/kafka/lonely.ts'],
    },
    {
      name: 'a file that a test alone reaches',
      files: {
        'test/unit/a.test.ts': "/**\n * Claims.\n */\nimport '#infra/kafka/b.ts'\n",
        'infra/kafka/b.ts': HEADER,
      },
      broken: ['tests-alone infra/kafka/b.ts'],
    },
    {
      name: 'a file of tests that a test alone reaches',
      files: { 'test/unit/a.test.ts': "import '#test/harness/b.ts'\n", 'test/harness/b.ts': HEADER },
      broken: [],
    },
    {
      name: 'the environment in a file that does not own it',
      files: started('export const port = process.env.PORT\n'),
      broken: ['environment infra/kafka/start.ts'],
    },
    ...[
      { name: 'a type', statement: "import type { Step } from '#streams/book/step.ts'", isShared: false },
      { name: 'types by name', statement: "import { type A, type B } from '#streams/book/step.ts'", isShared: false },
      { name: 'another oracle', statement: "import { b } from './b.ts'", isShared: false },
      { name: 'a package', statement: "import { b } from 'chai'", isShared: false },
      { name: 'a value of a stream', statement: "import { step } from '#streams/book/step.ts'", isShared: true },
      {
        name: 'a value beside a type',
        statement: "import {\n  type Step,\n  step,\n} from '../../streams/book/step.ts'",
        isShared: true,
      },
      { name: 'a value at run time', statement: "await import('#streams/book/step.ts')", isShared: true },
      { name: 'a value by way of a fixture', statement: "export * from '../fixtures/a.ts'", isShared: true },
    ].map(({ name, statement, isShared }) => ({
      name: `an oracle that imports ${name}`,
      files: {
        'test/unit/a.test.ts': "/**\n * Claims.\n */\nimport '#test/oracles/a.ts'\n",
        'test/oracles/a.ts': `${HEADER}${statement}\n`,
        'test/oracles/b.ts': HEADER,
        'test/fixtures/a.ts': HEADER,
        'test/unit/b.test.ts': "/**\n * Claims.\n */\nimport '../oracles/b.ts'\nimport '../fixtures/a.ts'\n",
      },
      broken: isShared ? ['oracle-shares-code test/oracles/a.ts'] : [],
    })),
    {
      name: 'a file that is started by its name',
      files: { ...started("spawn(new URL('./child.ts', import.meta.url))\n"), 'infra/kafka/child.ts': HEADER },
      broken: [],
    },
    ...[
      'who' + 'ever',
      'Yard' + 'stick',
      'set ' + 'aside',
      'life' + 'Signs',
      'refresh-' + 'tel' + 'ler',
      'stands' + 'At',
    ].map(word => ({
      name: `a private word: ${word}`,
      files: started(`// ${word}\n`),
      broken: ['private-word infra/kafka/start.ts'],
    })),
    {
      name: 'plain English that private words resemble',
      files: started('// A stand-in tells a story; a narrator says it in turn. A standing order has its place.\n'),
      broken: [],
    },
    {
      name: 'a file named helpers',
      files: { ...started("import './helpers.ts'\n"), 'infra/kafka/helpers.ts': HEADER },
      broken: ['forbidden-name infra/kafka/helpers.ts'],
    },
    {
      name: 'a folder named utils',
      files: { ...started("import './utils/a.ts'\n"), 'infra/kafka/utils/a.ts': HEADER },
      broken: ['forbidden-name infra/kafka/utils/a.ts'],
    },
    {
      name: 'a barrel',
      files: { ...started("import './index.ts'\n"), 'infra/kafka/index.ts': HEADER },
      broken: ['forbidden-name infra/kafka/index.ts'],
    },
    {
      name: 'a file in camel case',
      files: { ...started("import './rowCodec.ts'\n"), 'infra/kafka/rowCodec.ts': HEADER },
      broken: ['kebab-case infra/kafka/rowCodec.ts'],
    },
    { name: 'a file of 401 lines', files: started(lines(396)), broken: ['file-length infra/kafka/start.ts'] },
    { name: 'a file of 400 lines', files: started(lines(395)), broken: [] },
    {
      name: 'a function of 71 lines',
      files: started(`function long() {\n${lines(69)}}\n`),
      broken: ['function-length infra/kafka/start.ts'],
    },
    { name: 'a function of 70 lines', files: started(`function long() {\n${lines(68)}}\n`), broken: [] },
    {
      name: 'a file without a header',
      files: { 'infra/kafka/start.ts': 'export const a = 1\n' },
      broken: [],
    },
    {
      name: 'a header of eleven lines',
      files: { 'infra/kafka/start.ts': `/**\n${' * Goes on.\n'.repeat(11)} */\n` },
      broken: ['header infra/kafka/start.ts'],
    },
    {
      name: 'a comment that cites a document that is not there',
      files: started('/** Rules: GONE.md. */\n'),
      broken: ['missing-document infra/kafka/start.ts'],
    },
    { name: 'unfinished work', files: started(`// ${'TO'}${'DO'}: later\n`), broken: ['no-todo infra/kafka/start.ts'] },
    {
      name: 'a silenced type error',
      files: started(`// @${'ts'}-ignore\n`),
      broken: ['no-ts-ignore infra/kafka/start.ts'],
    },
    {
      name: 'a skipped test',
      files: { 'test/unit/a.test.ts': `/**\n * Claims.\n */\n  it${'.skip'}('a')\n` },
      broken: ['no-skipped-or-only-test test/unit/a.test.ts'],
    },
    {
      name: 'a test that excludes the others',
      files: { 'test/unit/a.test.ts': `/**\n * Claims.\n */\ndescribe${'.only'}('a')\n` },
      broken: ['no-skipped-or-only-test test/unit/a.test.ts'],
    },
    {
      name: 'a test that skips itself',
      files: { 'test/unit/a.test.ts': `/**\n * Claims.\n */\n    this${'.skip'}()\n` },
      broken: ['no-skipped-or-only-test test/unit/a.test.ts'],
    },
    {
      name: "a path of somebody's machine",
      files: started(`const data = '${'/home'}/somebody/data'\n`),
      broken: ['no-absolute-path infra/kafka/start.ts'],
    },
    {
      name: 'a clock in a schema',
      files: {
        ...started("import '#schemas/a.ts'\n"),
        'schemas/a.ts': `${HEADER}export const now = () => Date.now()\n`,
      },
      broken: ['pure schemas/a.ts'],
    },
    {
      name: 'chance in a step',
      files: {
        ...started("import '#streams/book/step.ts'\n"),
        'streams/book/step.ts': `${HEADER}export const x = Math.random()\n`,
      },
      broken: ['pure streams/book/step.ts'],
    },
  ]
  for (const { name, files, broken } of cases)
    it(`${broken.length === 0 ? 'let pass' : 'name'} ${name}`, async () => {
      expect(await rulesBrokenBy(files)).to.deep.equal(broken)
    })
})

describe('length of functions', () => {
  const body = lines(8)
  const cases = [
    { name: 'a method', text: `class A {\n  go() {\n${body}}\n}`, found: [{ name: 'go', line: 2, lines: 10 }] },
    {
      name: 'an arrow, by the constant that holds it',
      text: `const go = () => {\n${body}}`,
      found: [{ name: 'go', line: 1, lines: 10 }],
    },
    {
      name: 'a nested function and the one around it',
      text: `function a() {\n  function b() {\n${body}}\n}`,
      found: [
        { name: 'a', line: 1, lines: 12 },
        { name: 'b', line: 2, lines: 10 },
      ],
    },
    { name: 'no chapter of tests', text: `describe('a', () => {\n${body}${body}})`, found: [] },
    {
      name: 'a test inside a chapter',
      text: `describe('a', () => {\n  it('b', () => {\n${body}})\n})`,
      found: [{ name: 'a function', line: 2, lines: 10 }],
    },
    {
      name: 'lines after letters of several bytes',
      text: `// ééééé\nfunction a() {\n${body}}`,
      found: [{ name: 'a', line: 2, lines: 10 }],
    },
  ]
  for (const { name, text, found } of cases)
    it(`counts ${name}`, () => {
      expect(longFunctions(text, 9)).to.deep.equal(found)
      expect(longFunctions(text, 100)).to.deep.equal([])
    })
})
