/**
 * Fetches pinned artifacts once per machine into the download cache.
 *
 * Reads pins.json, writes directories `<name>-<version>-<digest of the pins>` below the cache. Invariant: such a
 * directory exists only complete and verified - everything happens in a temporary sibling that is renamed at the
 * end - so a killed download never counts and two downloads at once end in one of them being dropped. What is kept is
 * compared with the pins (unpacked: with the listing beside it) at every start.
 * Hosts are not named here: the package managers' own configuration says where they fetch from.
 */
import { createHash } from 'node:crypto'
import {
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { HOUR_MS } from '#schemas/values/instant.ts'
import pins from './pins.json' with { type: 'json' }
import { replaceFile } from './processes.ts'

type ArtifactName = keyof typeof pins

const STALE_AFTER_MS = 6 * HOUR_MS
const LISTING = '.sha512.json'

export function isArtifactName(name: string): name is ArtifactName {
  return name in pins
}

export function pinnedVersion(name: ArtifactName): string {
  return pins[name].version
}

/** The download cache's directory: MARKETLOG_CACHE, else the user's cache directory; never inside the checkout. */
export function cacheDirectory(environment: Record<string, string | undefined>): string {
  if (environment.MARKETLOG_CACHE) return environment.MARKETLOG_CACHE
  return join(environment.XDG_CACHE_HOME || join(environment.HOME || homedir(), '.cache'), 'marketlog')
}

/**
 * Directory of a verified artifact, fetched when it is not there yet. `fetchInto` fills `files` of the work
 * directory; after verification `unpack` may turn them into what is kept in `target` (default: the files themselves).
 */
export async function provideArtifact(
  name: ArtifactName,
  cacheDir: string,
  fetchInto: (files: string, work: string) => Promise<void>,
  unpack?: (files: string, target: string) => Promise<void>,
): Promise<string> {
  const pin = pins[name]
  const digest = createHash('sha256').update(JSON.stringify(pin)).digest('hex').slice(0, 12)
  const final = join(cacheDir, `${name}-${pin.version}-${digest}`)
  if (!(await isIntact(name, final, unpack === undefined))) await fetchArtifact(name, final, fetchInto, unpack)
  return final
}

/** Whether what was kept is still what was verified; what is not is discarded, and fetched again. */
async function isIntact(name: ArtifactName, final: string, isWhole: boolean): Promise<boolean> {
  try {
    await verify(name, final, isWhole ? pins[name].sha512 : JSON.parse(readFileSync(`${final}${LISTING}`, 'utf8')))
    return true
  } catch {
    rmSync(final, { recursive: true, force: true })
    return false
  }
}

const filesOf = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(entry => !entry.isDirectory())
    .map(entry => relative(directory, join(entry.parentPath, entry.name)))

async function sumOf(path: string): Promise<string> {
  const hash = createHash('sha512')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

async function fetchArtifact(
  name: ArtifactName,
  final: string,
  fetchInto: (files: string, work: string) => Promise<void>,
  unpack: ((files: string, target: string) => Promise<void>) | undefined,
): Promise<void> {
  const cacheDir = dirname(final)
  mkdirSync(cacheDir, { recursive: true })
  dropStale(cacheDir, name)
  const work = mkdtempSync(join(cacheDir, `${name}.partial-`))
  try {
    const files = join(work, 'files')
    mkdirSync(files)
    await fetchInto(files, work)
    await verify(name, files, pins[name].sha512)
    const target = unpack === undefined ? files : join(work, 'kept')
    if (unpack !== undefined) {
      mkdirSync(target)
      await unpack(files, target)
      const sums: Record<string, string> = {}
      for (const file of filesOf(target)) sums[file] = await sumOf(join(target, file))
      replaceFile(`${final}${LISTING}`, JSON.stringify(sums))
    }
    publish(target, final)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Throws unless the directory holds exactly the pinned files with the pinned SHA-512. */
async function verify(name: string, directory: string, pinned: Record<string, string>): Promise<void> {
  const files = filesOf(directory).sort()
  const expected = Object.keys(pinned).sort()
  const absentFiles = expected.filter(file => !files.includes(file))
  const unknownFiles = files.filter(file => !expected.includes(file))
  if (absentFiles.length + unknownFiles.length > 0)
    throw new Error(
      `${name}: the download does not hold the pinned files (missing: ${absentFiles.join(', ') || 'none'}; ` +
        `not pinned: ${unknownFiles.join(', ') || 'none'}). If the version was changed, renew infra/stack/pins.json.`,
    )
  for (const file of expected) {
    const actual = await sumOf(join(directory, file))
    if (actual !== pinned[file])
      throw new Error(
        `${name}: ${file} has SHA-512 ${actual.slice(0, 16)}…, pinned is ${pinned[file]?.slice(0, 16)}…; the file was ` +
          'discarded. Try again; if it stays, the source serves another file than the one that was checked.',
      )
  }
}

function publish(target: string, final: string): void {
  try {
    renameSync(target, final)
  } catch (error) {
    // Another process finished first; its directory was verified against the same pins.
    if (!existsSync(final)) throw error
  }
}

function dropStale(cacheDir: string, name: string): void {
  for (const entry of readdirSync(cacheDir).filter(one => one.startsWith(`${name}.partial-`))) {
    const path = join(cacheDir, entry)
    if (Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > STALE_AFTER_MS)
      rmSync(path, { recursive: true, force: true })
  }
}
