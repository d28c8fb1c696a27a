/**
 * What makes a pure file impure; each is found where it stands, and nothing is found in a pure one.
 */
import { expect } from 'chai'
import { findImpure } from '#infra/checks/purity.ts'

const foundIn = (files: Record<string, string>): string[] =>
  findImpure(Object.entries(files).map(([path, text]) => ({ path, text }))).map(({ file, line }) =>
    line === undefined ? file : `${file}:${line}`,
  )

const STEP = 'streams/book/step.ts'
const PURE = '/**\n * Judges.\n *\n * Pure. Nothing else.\n */\n'

describe('pure files', () => {
  const cases: { name: string; files: Record<string, string>; found: string[] }[] = [
    { name: 'a clock', files: { [STEP]: 'export const now = () => Date.now()' }, found: [`${STEP}:1`] },
    { name: 'chance', files: { 'schemas/a.ts': '\nconst x = Math.random()' }, found: ['schemas/a.ts:2'] },
    { name: 'a setting', files: { 'streams/book/judge.ts': 'process.argv' }, found: ['streams/book/judge.ts:1'] },
    { name: 'I/O', files: { [STEP]: "import { readFileSync } from 'node:fs'" }, found: [STEP] },
    { name: 'a client room', files: { [STEP]: "import { openRedis } from '#infra/redis/redis.ts'" }, found: [STEP] },
    {
      name: 'a client room beside a type of it',
      files: { [STEP]: "import {\n  type Redis,\n  openRedis,\n} from '../../infra/redis/redis.ts'" },
      found: [STEP],
    },
    { name: 'a variable of the module', files: { [STEP]: 'let last = 0' }, found: [`${STEP}:1`] },
    {
      name: 'a cache',
      files: {
        [STEP]: 'const rates = new Map<string, number>()\nfunction rate(text: string) {\n  rates.set(text, 1)\n}',
      },
      found: [`${STEP}:1`],
    },
    {
      name: 'a record that a function writes',
      files: { [STEP]: 'const seen: Record<string, number> = {}\nfunction see(key: string) {\n  seen[key] = 1\n}' },
      found: [`${STEP}:1`],
    },
    {
      name: 'a count that a function raises',
      files: { [STEP]: 'const counts = { all: 0 }\nfunction count() {\n  counts.all += 1\n}' },
      found: [`${STEP}:1`],
    },
    {
      name: 'a clock in a file that its header calls pure',
      files: { 'services/api/a.ts': `${PURE}Date.now()` },
      found: ['services/api/a.ts:6'],
    },
    {
      name: 'a clock in a file that a pure one uses',
      files: { [STEP]: "import { a } from './a.ts'", 'streams/book/a.ts': 'export const a = () => Date.now()' },
      found: ['streams/book/a.ts:1'],
    },
  ]
  for (const { name, files, found } of cases)
    it(`hold no ${name}`, () => {
      expect(foundIn(files)).to.deep.equal(found)
    })

  const allowed: { name: string; files: Record<string, string> }[] = [
    { name: 'types of a client room', files: { [STEP]: "import type { Redis } from '#infra/redis/redis.ts'" } },
    { name: 'hashes', files: { [STEP]: "import { createHash } from 'node:crypto'" } },
    {
      name: 'constant collections',
      files: { [STEP]: "const KNOWN = new Set(['a'])\nexport const isKnown = (x: string) => KNOWN.has(x)" },
    },
    {
      name: 'collections of a function',
      files: { [STEP]: 'export function step() {\n  const seen = new Map()\n  seen.set(1, 2)\n}' },
    },
    { name: 'a clock in a comment', files: { [STEP]: '/**\n * Never Date.now().\n */' } },
    { name: 'a clock in a file that nothing calls pure', files: { 'streams/book/main.ts': 'Date.now()' } },
  ]
  for (const { name, files } of allowed)
    it(`may hold ${name}`, () => {
      expect(foundIn(files)).to.deep.equal([])
    })
})
