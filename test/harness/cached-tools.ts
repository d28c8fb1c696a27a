/**
 * Tools in pinned versions, installed once per machine.
 *
 * Writes `<name>-<digest of the versions>` below the download cache; a part of it counts once its marker is there.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { runTool } from '#infra/stack/one-shot.ts'

const LIMIT_MS = 900_000

/** The tools of some versions; `commands` are the folders with their commands. */
export function openCachedTools(name: string, versions: unknown, commands: readonly string[]) {
  const digest = createHash('sha256').update(JSON.stringify(versions)).digest('hex').slice(0, 12)
  const folder = join(cacheDirectory(process.env), `${name}-${digest}`)
  return {
    folder,
    run(directory: string, command: string, ...args: string[]): Promise<string> {
      const PATH = [...commands.map(one => join(folder, one)), process.env.PATH].join(delimiter)
      const environment = { ...process.env, PATH }
      const signal = AbortSignal.timeout(LIMIT_MS)
      return runTool({ command, args, directory, environment, limitMs: LIMIT_MS, signal })
    },
    /** Fills a part, unless a run before has. */
    async install(part: string, work: (into: string) => Promise<unknown>): Promise<void> {
      const into = join(folder, part)
      if (existsSync(`${into}.installed`)) return
      rmSync(into, { recursive: true, force: true })
      mkdirSync(into, { recursive: true })
      await work(into)
      writeFileSync(`${into}.installed`, '')
    },
  }
}
