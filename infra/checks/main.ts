/**
 * Runs one check over the repository: `node infra/checks/main.ts tidy | schemas | packages | lock-schemas`.
 *
 * Writes findings to standard output, one a line, and ends with 1 when there are any. `lock-schemas` alone
 * writes a file: the released schemas.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { allTopics } from '#schemas/topics.ts'
import { checkEventSchemas, lockEventSchemas, type SchemaLock } from './event-schemas.ts'
import { describeFinding, type Finding } from './finding.ts'
import { checkPackages, type PackageLock } from './packages.ts'
import { checkTidiness } from './tidy.ts'

const ROOT = join(import.meta.dirname, '../..')
const LOCK = join(import.meta.dirname, 'schemas.lock.json')
const INSTALLERS = ['services/cli/install.sh', 'infra/Dockerfile']

const events = [...new Map(allTopics.flatMap(topic => topic.events).map(event => [event.name, event])).values()]
const readLock = () => JSON.parse(readFileSync(LOCK, 'utf8')) as SchemaLock

const CHECKS: Record<string, () => Finding[] | Promise<Finding[]>> = {
  tidy: () => checkTidiness(ROOT),
  schemas: () => checkEventSchemas(events, readLock()),
  packages: () => {
    const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
    const { allowScripts } = JSON.parse(read('package.json')) as { allowScripts: Record<string, boolean> }
    const lock = JSON.parse(read('package-lock.json')) as PackageLock
    return checkPackages(lock, allowScripts, Object.fromEntries(INSTALLERS.map(file => [file, read(file)])))
  },
  'lock-schemas': () => {
    writeFileSync(LOCK, `${JSON.stringify(lockEventSchemas(events, readLock()), null, 2)}\n`)
    return []
  },
}

const name = process.argv[2] ?? ''
const check = CHECKS[name]
if (!check) {
  console.error(`there is no check "${name}"; checks: ${Object.keys(CHECKS).join(', ')}`)
  process.exitCode = 64
} else {
  const findings = await check()
  for (const finding of findings) console.log(describeFinding(finding))
  console.log(`${name}: ${findings.length === 0 ? 'ok' : `${findings.length} found`}`)
  process.exitCode = findings.length === 0 ? 0 : 1
}
