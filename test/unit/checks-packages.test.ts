/**
 * What the check of packages finds, and what an answer of the registry's auditor comes to.
 *
 * 19 entries had no sum and 26 no licence, and the runtime was fetched by a package's script, past the lock file.
 */
import { expect } from 'chai'
import { advisoriesOf, signaturesOf } from '#infra/checks/audit-report.ts'
import { checkPackages } from '#infra/checks/packages.ts'

const GOOD = { version: '1.0.0', integrity: 'sha512-x', license: 'MIT' }
const detailsOf = (
  entry: object,
  allowScripts: Record<string, boolean> = {},
  installers: Record<string, string> = {},
) =>
  checkPackages({ packages: { '': {}, 'node_modules/a/node_modules/@b/c': entry } }, allowScripts, installers).map(
    ({ detail }) => detail,
  )

describe('the check of packages', () => {
  it('lets pass a package with a sum and an allowed licence', () => {
    for (const license of ['MIT', '(MIT OR GPL-3.0)', 'Apache-2.0 AND MIT'])
      expect(detailsOf({ ...GOOD, license }), license).to.deep.equal([])
  })

  it('finds a package without a SHA-512', () => {
    for (const integrity of [undefined, '', 'sha1-x'])
      expect(detailsOf({ ...GOOD, integrity })[0], `${integrity}`).to.match(/^@b\/c has no SHA-512/)
  })

  it('finds a licence that is not allowed, in every part that binds', () => {
    for (const license of [undefined, 'GPL-3.0', 'MIT AND GPL-3.0'])
      expect(detailsOf({ ...GOOD, license })[0], `${license}`).to.match(/^@b\/c has the licence/)
  })

  it('finds an install script of which nothing is said', () => {
    const entry = { ...GOOD, hasInstallScript: true }
    expect(detailsOf(entry)[0]).to.match(/^@b\/c has an install script/)
    expect(detailsOf(entry, { '@b/c': false })).to.deep.equal([])
  })

  it('finds an installation that would run scripts', () => {
    expect(detailsOf(GOOD, {}, { 'a.sh': '# npm ci\nnpm ci --ignore-scripts\nnpm ci --omit=dev' })).to.have.length(1)
  })
})

describe('an audit', () => {
  it('takes no report for no answer, whatever was printed instead', () => {
    const refused = '{"message":"405 Method Not Allowed","statusCode":405,"body":"","error":{"summary":"","detail":""}}'
    for (const printed of ['', 'npm error', 'null', refused]) {
      expect(advisoriesOf(printed), printed).to.equal('unavailable')
      expect(signaturesOf(printed), printed).to.equal('unavailable')
    }
  })

  it('names each package that something is against', () => {
    const report = { auditReportVersion: 2, vulnerabilities: { tar: { severity: 'high' } } }
    expect(advisoriesOf(JSON.stringify(report))).to.deep.equal(['tar: high'])
    expect(advisoriesOf('{"auditReportVersion":2,"vulnerabilities":{}}')).to.deep.equal([])
    const signatures = { invalid: [{ name: 'a', version: '1.0.0' }], missing: [{ name: 'b', version: '2.0.0' }] }
    expect(signaturesOf(JSON.stringify(signatures))).to.deep.equal([
      'a@1.0.0: wrong signature',
      'b@2.0.0: no signature',
    ])
  })
})
