/**
 * Which marketlog this is: the version of package.json, and the commit where it runs from a checkout.
 *
 * Reads package.json and asks git.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment } from '#infra/runtime/secret.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** `1.0.0 (ca63e61)`, or `1.0.0` where nothing was checked out. */
export function versionText(environment: Environment): string {
  const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string }
  const commit = checkedOutCommit(environment)
  return commit === undefined ? version : `${version} (${commit})`
}

/** Asks git; undefined without git or a repository of our own: one around the folder is another project's. */
function checkedOutCommit({ PATH, HOME }: Environment): string | undefined {
  const env = { PATH, HOME, GIT_CEILING_DIRECTORIES: dirname(ROOT.slice(0, -1)) }
  try {
    const args = ['-C', ROOT, 'rev-parse', '--short', 'HEAD']
    return execFileSync('git', args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}
