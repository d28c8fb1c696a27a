/**
 * What is absent fails continuous integration, and is printed everywhere else.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { isContinuousIntegration, noteAbsence, notedAbsences } from '#test/harness/absences.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'

describe('an absence', () => {
  let folder: string
  let environment: NodeJS.ProcessEnv
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'marketlog-absences-test-'))
    environment = { MARKETLOG_TEST_NOTES: folder }
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it('fails continuous integration', () => {
    const note = (name: string, CI?: string) => noteAbsence(name, 'less is checked', { ...environment, CI })
    expect(() => note('a JDK', 'true')).to.throw('a JDK is absent, which continuous integration does not allow')
    expect(() => note('a JDK', '1')).to.throw('less is checked')
    note('a JDK')
  })

  it('is noted once for all workers of a run', () => {
    for (let worker = 0; worker < 3; worker++) noteAbsence('a JDK', 'less is checked', environment)
    expect(notedAbsences(environment)).to.deep.equal(['a JDK is absent: less is checked'])
    expect(notedAbsences({})).to.deep.equal([])
  })

  it('of continuous integration itself is known from CI', () => {
    const values = [undefined, '', 'false', 'true', '1']
    expect(values.map(CI => isContinuousIntegration({ CI }))).to.deep.equal([false, false, false, true, true])
  })

  it('of a JDK is noted, and where it must not be installed fails continuous integration', async () => {
    const bare = { ...environment, PATH: '', MARKETLOG_INSTALL: 'never', MARKETLOG_CACHE: folder }
    expect(await findJavaReader(bare, folder)).to.equal(undefined)
    expect(notedAbsences(environment)).to.deep.equal([
      "a JDK (javac) is absent: Kafka's own client does not read the topics a second time",
    ])
    const refused = await findJavaReader({ ...bare, CI: 'true' }, folder).then(() => 'found', String)
    expect(refused).to.include('A JDK is needed').and.include('MARKETLOG_INSTALL=never forbids it')
  })
})
