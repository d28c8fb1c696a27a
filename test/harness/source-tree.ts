/**
 * A throw-away folder of files, for tests of what reads a source tree.
 *
 * The folder is gone afterwards, whether the test passed or not.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** Runs `use` with the root of a folder that holds the given files, path → text. */
export async function withTree<T>(files: Record<string, string>, use: (root: string) => T | Promise<T>): Promise<T> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'marketlog-tree-')))
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      writeFileSync(join(root, path), text)
    }
    return await use(root)
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}
