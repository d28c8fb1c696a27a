/** 19 entries had no sum and 26 no licence, and the runtime was fetched by a package's script, past the lock file. */
import { expect } from 'chai'
import { checkPackages } from '#infra/checks/packages.ts'

const GOOD = { integrity: 'sha512-x', license: 'MIT' }
const brokenBy = (entry: object, allowScripts: Record<string, boolean> = {}) =>
  checkPackages({ packages: { '': {}, 'node_modules/a/node_modules/@b/c': entry } }, allowScripts)

describe('the check of packages', () => {
  it('lets pass a package with a sum and an allowed licence', () => {
    for (const license of ['MIT', '(MIT OR GPL-3.0)', 'Apache-2.0 AND MIT'])
      expect(brokenBy({ ...GOOD, license }), license).to.deep.equal([])
  })

  it('finds a package without a SHA-512', () => {
    for (const integrity of [undefined, '', 'sha1-x'])
      expect(brokenBy({ ...GOOD, integrity })[0], `${integrity}`).to.match(/^@b\/c has no SHA-512/)
  })

  it('finds a licence that is not allowed, in every part that binds', () => {
    for (const license of [undefined, 'GPL-3.0', 'MIT AND GPL-3.0'])
      expect(brokenBy({ ...GOOD, license })[0], `${license}`).to.match(/^@b\/c has the licence/)
  })

  it('allows of tools a licence that asks something of those who change or ship them, and of nothing else', () => {
    expect(brokenBy({ ...GOOD, license: 'MPL-2.0', dev: true })).to.deep.equal([])
    expect(brokenBy({ ...GOOD, license: 'MPL-2.0' })[0]).to.match(/^@b\/c has the licence/)
  })

  it('finds an install script of which nothing is said', () => {
    const entry = { ...GOOD, hasInstallScript: true }
    expect(brokenBy(entry)[0]).to.match(/^@b\/c has an install script/)
    expect(brokenBy(entry, { '@b/c': false })).to.deep.equal([])
  })
})
