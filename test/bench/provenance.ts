/**
 * What a figure was measured on: the machine and the commit.
 *
 * Reads the machine's own description and asks git; without git the commit is null.
 */
import { execFileSync } from 'node:child_process'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'

/** Machine and commit, as every line of bench.json carries them. */
export interface Provenance {
  machine: { cores: number; cpu: string; memory_gib: number; node: string }
  /** `is_dirty`: files of the checkout differ from the commit. */
  commit: { id: string; is_dirty: boolean } | null
}

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
const GIB = 2 ** 30

/** Describes this machine and this checkout. */
export function provenance(): Provenance {
  const memory = Math.round((totalmem() / GIB) * 10) / 10
  return {
    machine: {
      cores: availableParallelism(),
      cpu: cpus()[0]?.model.trim() ?? 'unknown',
      memory_gib: memory,
      node: process.version,
    },
    commit: commitOf(CHECKOUT),
  }
}

function commitOf(checkout: string): Provenance['commit'] {
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', checkout, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  try {
    return { id: git('rev-parse', 'HEAD'), is_dirty: git('status', '--porcelain') !== '' }
  } catch {
    return null
  }
}
