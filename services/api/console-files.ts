/** What services/console/build has left in dist/, which is nothing in a checkout that was not built. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

const BUILT = new URL('../console/dist/', import.meta.url)
const INDEX = new URL('index.html', BUILT)

export interface ConsoleFile {
  body: Buffer
  /** By gzip, once for all clients. */
  packed(): Promise<Buffer>
}

export const isConsoleBuilt = (): boolean => existsSync(INDEX)

/**
 * The page, whose links begin with `./`, and by name the files that it loads, whose names have hashes of their content. Undefined where
 * nothing is built.
 */
export function readConsole(): { page: string; files: ReadonlyMap<string, ConsoleFile> } | undefined {
  if (!isConsoleBuilt()) return undefined
  const folder = new URL('assets/', BUILT)
  const names = readdirSync(folder)
  return {
    page: readFileSync(INDEX, 'utf8'),
    files: new Map(names.map(name => [name, openFile(readFileSync(new URL(name, folder)))])),
  }
}

function openFile(body: Buffer): ConsoleFile {
  let packing: Promise<Buffer> | undefined
  return {
    body,
    packed() {
      packing ??= promisify(gzip)(body, { level: 9 })
      return packing
    },
  }
}
