/**
 * Class data archives, which halve the start of a Java server from its second start on.
 *
 * Reads and writes <cache>/class-archives. Invariant: an archive is taken into use only after the virtual machine that
 * wrote it had ended by itself; its name holds runtime build and program, since no other pair can use it.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { JavaRuntime } from './java.ts'

const STALE_AFTER_MS = 24 * 3_600_000

/** Flags of one start and what to do with the archive that this start may write at its end. */
interface ClassArchive {
  flags: string[]
  afterStop: (how: string | undefined) => void
}

/** Uses the archive of this runtime and program, or has this run write it when it ends. */
export function useClassArchive(cacheDir: string, java: JavaRuntime, program: string): ClassArchive {
  const directory = join(cacheDir, 'class-archives')
  mkdirSync(directory, { recursive: true })
  const key = createHash('sha256').update(`${java.launcher}\n${java.build}\n${program}\n${statSync(program).mtimeMs}`)
  const archive = join(directory, `${key.digest('hex').slice(0, 16)}.jsa`)
  if (existsSync(archive)) return { flags: [`-XX:SharedArchiveFile=${archive}`, '-Xlog:cds=off'], afterStop: () => {} }
  dropStale(directory)
  const written = `${archive}.${crypto.randomUUID()}`
  return {
    flags: [`-XX:ArchiveClassesAtExit=${written}`, '-Xlog:cds=off', '-Xlog:cds+dynamic=off'],
    afterStop: how => {
      // 143 is how a virtual machine ends that SIGTERM asked to end and that finished its work, the archive included.
      const finished = how === 'exit code 143' || how === 'exit code 0'
      if (finished && existsSync(written)) renameSync(written, archive)
      else rmSync(written, { force: true })
    },
  }
}

function dropStale(directory: string): void {
  for (const file of readdirSync(directory)) {
    const path = join(directory, file)
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    if (!file.endsWith('.jsa') && age > STALE_AFTER_MS) rmSync(path, { force: true })
  }
}
