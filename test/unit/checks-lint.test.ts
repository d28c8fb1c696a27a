/**
 * The lint settings: what the house forbids is an error, not a hint, on the tree as it is checked in.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { withTree } from '#test/harness/source-tree.ts'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** The lint rules that a file of this text breaks. */
const rulesBrokenBy = (text: string): Promise<string[]> =>
  withTree({ 'infra/a.ts': text, '.biome.json': readFileSync(join(ROOT, '.biome.json'), 'utf8') }, async root => {
    const biome = join(ROOT, 'node_modules/.bin/biome')
    const args = ['lint', '--error-on-warnings', '--reporter=json', '--vcs-enabled=false', '.']
    const { stdout } = await run(biome, args, { cwd: root }).catch(error => error as { stdout: string })
    const { diagnostics } = JSON.parse(stdout) as { diagnostics: { category: string }[] }
    return diagnostics.map(({ category }) => category.split('/').at(-1) ?? '')
  })

describe('lint settings', () => {
  const cases = [
    { name: 'tidy code', text: 'export const a = 1\n', broken: [] },
    { name: 'a default export', text: 'export default 1\n', broken: ['noDefaultExport'] },
    { name: 'an enum', text: 'export enum Side {\n  Ask = 1,\n}\n', broken: ['noEnum'] },
    {
      name: 'a promise that is not awaited',
      text: 'async function go() {}\nexport const a = () => {\n  go()\n}\n',
      broken: ['noFloatingPromises'],
    },
    { name: 'any', text: 'export const a = (b: any) => b\n', broken: ['noExplicitAny'] },
    {
      name: 'a type imported as a value',
      text: "import { Server } from 'node:http'\nexport type A = Server\n",
      broken: ['useImportType'],
    },
    { name: 'a builtin without its prefix', text: "export * from 'fs'\n", broken: ['useNodejsImportProtocol'] },
    { name: 'a dead variable', text: 'export const a = () => {\n  const b = 1\n}\n', broken: ['noUnusedVariables'] },
  ]
  for (const { name, text, broken } of cases)
    it(`${broken.length === 0 ? 'let pass' : 'refuse'} ${name}`, async () => {
      expect(await rulesBrokenBy(text)).to.deep.equal(broken)
    })
})
