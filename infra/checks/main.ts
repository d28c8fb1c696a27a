/**
 * Holds event schemas and package-lock.json against their rules: `node infra/checks/main.ts schemas | packages | lock-schemas`.
 *
 * Prints one broken rule a line, and ends with 1 when there are any. `lock-schemas` alone writes a file: the released schemas.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { allTopics } from '#schemas/topics.ts'
import { checkEventSchemas, lockEventSchemas, type SchemaLock } from './event-schemas.ts'
import { checkPackages, type PackageLock } from './packages.ts'

const ROOT = join(import.meta.dirname, '../..')
const LOCK = join(import.meta.dirname, 'schemas.lock.json')

const events = [...new Map(allTopics.flatMap(topic => topic.events).map(event => [event.name, event])).values()]
const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, 'utf8'))

const CHECKS: Record<string, () => string[]> = {
  schemas: () => checkEventSchemas(events, readJson<SchemaLock>(LOCK)).map(({ rule, detail }) => `${rule}: ${detail}`),
  packages: () =>
    checkPackages(
      readJson<PackageLock>(join(ROOT, 'package-lock.json')),
      readJson<{ allowScripts: Record<string, boolean> }>(join(ROOT, 'package.json')).allowScripts,
    ),
  'lock-schemas': () => {
    writeFileSync(LOCK, `${JSON.stringify(lockEventSchemas(events, readJson<SchemaLock>(LOCK)), null, 2)}\n`)
    return []
  },
}

const name = process.argv[2] ?? ''
const check = CHECKS[name]
if (!check) {
  console.error(`there is no check "${name}"; checks: ${Object.keys(CHECKS).join(', ')}`)
  process.exitCode = 64
} else {
  const broken = check()
  for (const line of broken) console.log(line)
  console.log(`${name}: ${broken.length === 0 ? 'ok' : `${broken.length} found`}`)
  process.exitCode = broken.length === 0 ? 0 : 1
}
