/**
 * The code of another commit in a folder of its own, for tests that run two versions side by side.
 *
 * Taken from git as it is in this clone, with the packages that are installed here. Invariant: the folder is gone after `remove`,
 * and neither the clone nor its work tree is touched.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The code of a commit. */
export interface Checkout {
  readonly commit: string
  /** Path of its command line. */
  readonly main: string
  remove(): void
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ARCHIVE_BYTES = 512 * 2 ** 20

/** Runs git in this clone; undefined without git, the clone or the thing asked for. */
function git(...args: string[]): Buffer | undefined {
  const { PATH, HOME } = process.env
  // A repository around this folder is another project's.
  const env = { PATH, HOME, GIT_CEILING_DIRECTORIES: dirname(ROOT.slice(0, -1)) }
  try {
    return execFileSync('git', ['-C', ROOT, ...args], {
      env,
      maxBuffer: ARCHIVE_BYTES,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
  } catch {
    return undefined
  }
}

/** The full id of a commit; undefined where this clone does not hold it. */
export const commitOf = (revision: string): string | undefined =>
  git('rev-parse', '--verify', '--quiet', `${revision}^{commit}`)?.toString().trim() || undefined

/** The commit that brought a file; undefined in a clone without that history. */
export const commitThatAdded = (path: string): string | undefined =>
  git('log', '--diff-filter=A', '--format=%H', '--', path)?.toString().trim().split('\n').at(-1) || undefined

/** Unpacks a commit of this clone. */
export function checkOut(commit: string): Checkout {
  const archive = git('archive', '--format=tar', commit)
  if (archive === undefined) throw new Error(`git has no archive of ${commit}`)
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'marketlog-checkout-')))
  execFileSync('tar', ['-x', '-C', folder], { input: archive })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return {
    commit,
    main: join(folder, 'services/cli/main.ts'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
