/** Tools of other registries in pinned versions, installed once per machine below the download cache. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheDirectory } from '#infra/stack/downloads.ts'

/** A folder for these versions; `install` fills a part of it, which counts once its marker is there. */
export function openInstalled(name: string, versions: unknown) {
  const digest = createHash('sha256').update(JSON.stringify(versions)).digest('hex').slice(0, 12)
  const folder = join(cacheDirectory(process.env), `${name}-${digest}`)
  return {
    folder,
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
