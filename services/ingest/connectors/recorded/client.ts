/**
 * Recorded refreshes from files: gzip JSON, or plain JSON, in one directory.
 *
 * Reads files, writes nothing. Files come in the order of the times that they state, whatever their names; a truncated or
 * unreadable file becomes a failed refresh in that order and does not stop the others; one file at a time is in memory.
 */
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { constants, gunzip } from 'node:zlib'
import type { RecordedOptions } from '#infra/config/market.ts'
import type { Connector, FailedRefresh, Refresh, SourceSettings } from '../../source.ts'
import { readRecordedText, statedTime } from './map.ts'

const unpack = promisify(gunzip)
const TEXT_MAX_BYTES = 512 * 2 ** 20
const BEGINNING_BYTES = 16 * 2 ** 10
const GZIP_MAGIC = [0x1f, 0x8b]

/** Lists the recorded files of a directory in time order. Throws when there is no such directory. */
export async function listRecorded(dir: string) {
  const names = (await readdir(dir)).filter(name => /\.json(\.gz)?$/.test(name)).sort()
  const files: { path: string; observedAt: number | undefined }[] = []
  for (const name of names) files.push({ path: join(dir, name), observedAt: await timeOf(join(dir, name)) })
  // A file that does not state its time takes that of the file before it by name, else of the first that does.
  let last = files.find(file => file.observedAt !== undefined)?.observedAt ?? 0
  const timed = files.map(({ path, observedAt }) => {
    last = observedAt ?? last
    return { path, observedAt: last }
  })
  return timed.sort((a, b) => a.observedAt - b.observedAt)
}

/** Reads a recorded file; `currency` is taken where it names none, `observedAt` where it cannot be read. */
export async function readRecorded(path: string, currency: string, observedAt = 0): Promise<Refresh | FailedRefresh> {
  const failed = (reason: string, detail = reason): FailedRefresh => {
    return { kind: 'failed', observedAt, reason, detail: `${basename(path)}: ${detail}` }
  }
  let text = await readFile(path)
  try {
    if (isGzip(text)) text = await unpack(text, { maxOutputLength: TEXT_MAX_BYTES })
  } catch (error) {
    const { code = '' } = error as { code?: string }
    return failed({ Z_BUF_ERROR: 'truncated', ERR_BUFFER_TOO_LARGE: 'too_large' }[code] ?? 'corrupt')
  }
  const read = readRecordedText(text.toString(), currency)
  return read.kind === 'refresh' ? read : failed(read.reason, read.detail)
}

/** Opens a feed of recorded files: each poll brings the files that are newer than what is published. */
export function openRecorded(source: SourceSettings, options: RecordedOptions): Connector {
  return {
    async *poll({ after, signal }) {
      for (const file of await listRecorded(options.dir)) {
        if (signal.aborted) return
        if (after === undefined || file.observedAt > after)
          yield await readRecorded(file.path, source.currency, file.observedAt)
      }
    },
  }
}

/** The time is near the beginning of every file that we know; reading only that orders 1,000 files in a second. */
async function timeOf(path: string): Promise<number | undefined> {
  const bytes = await readFile(path)
  const beginning = bytes.subarray(0, BEGINNING_BYTES)
  const options = { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: TEXT_MAX_BYTES }
  const text = isGzip(bytes) ? await unpack(beginning, options).catch(() => undefined) : beginning
  const stated = statedTime(text?.toString() ?? '')
  if (stated !== undefined) return stated
  const read = await readRecorded(path, '')
  return read.kind === 'refresh' ? read.observedAt : undefined
}

const isGzip = (bytes: Buffer): boolean => GZIP_MAGIC.every((byte, i) => bytes[i] === byte)
