/**
 * POST /prices, all asks as one stream: its first byte, its throughput against a file server with the same bytes, and
 * the memory that eight readers at once cost.
 *
 * Plain and gzip, in turns with the file server, one reader and the market at rest.
 */
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import { newKey } from '../account-keys.ts'
import { startBaseline } from '../baseline.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { figureEntry, ratioEntry, type Turn } from '../entry.ts'
import { requireSome } from '../requirements.ts'
import type { RoleProcess } from '../role-process.ts'
import { serveApi } from '../serve-api.ts'
import type { Stage } from '../stage.ts'
import { percentile } from '../statistics.ts'
import { readStream, type StreamQuestion, type StreamRead, timeToFirstByte } from '../stream-read.ts'

const TURNS = 5
const STARTS = 200
const READERS = 8
const ROUNDS = 2
const SAMPLE_MS = 200
const BUILD_LIMIT_MS = 120_000
const MEGABYTE = 1e6
const FILES = new URL('../baselines/static-files.ts', import.meta.url)
const CODINGS = [
  { coding: 'identity', label: 'plain' },
  { coding: 'gzip', label: 'gzip' },
]

/** Bulk snapshots. */
export const snapshots: Bench = {
  name: 'snapshots',
  about: 'POST /prices, all asks: first byte, throughput against a file server, memory of eight readers',
  async run(context) {
    const stage = await context.stage()
    const process = await serveApi(stage, text => context.say(text))
    context.say('waiting for the first snapshot')
    const ask = questionOf(process, await newKey(stage), 'gzip')
    await eventually(async () => (await readStream(ask)).bytes > 0, 'a snapshot', BUILD_LIMIT_MS)
    const entries = await throughput(context, stage, process)
    entries.push(await firstByte(context, stage, process), await memory(context, stage, process))
    return entries
  },
}

function questionOf({ baseUrl }: RoleProcess, key: string, coding: string): StreamQuestion {
  const headers = { authorization: `Bearer ${key}`, 'accept-encoding': coding }
  return { url: `${baseUrl}/v1/prices`, method: 'POST', headers }
}

async function throughput(context: BenchContext, stage: Stage, process: RoleProcess): Promise<Entry[]> {
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-bench-'))
  const files = startBaseline(FILES)
  const entries: Entry[] = []
  try {
    const baseUrl = await files.ask<string>('serve', folder)
    for (const { coding, label } of CODINGS) {
      const ours = questionOf(process, await newKey(stage), coding)
      const file = createWriteStream(join(folder, label))
      await readStream(ours, bytes => void file.write(bytes))
      file.end()
      await finished(file)
      requireSome(`bytes of a ${label} snapshot`, file.bytesWritten)
      const bare: StreamQuestion = { url: `${baseUrl}/${label}`, method: 'GET', headers: {} }
      const turns: Turn[] = []
      const count = context.isQuick ? 2 : TURNS
      for (let turn = 0; turn < count; turn++) {
        context.signal.throwIfAborted()
        context.say(`${label}: turn ${turn + 1} of ${count}`)
        turns.push(await turnOf(ours, bare, turn % 2 === 0))
      }
      const name = `POST /prices, all asks, ${label}: throughput, against a file server`
      entries.push(ratioEntry({ name, unit: 'MB/s', better: 'higher' }, turns))
    }
    return entries
  } finally {
    await files.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Megabytes a second of the platform and of the file server, which send the same bytes; who comes first differs. */
async function turnOf(ours: StreamQuestion, bare: StreamQuestion, isOursFirst: boolean): Promise<Turn> {
  const first = await readStream(isOursFirst ? ours : bare)
  const second = await readStream(isOursFirst ? bare : ours)
  if (first.bytes !== second.bytes) throw new Error(`one side sent ${first.bytes} bytes, the other ${second.bytes}`)
  const [value, against] = isOursFirst ? [first, second] : [second, first]
  return { value: rateOf(value), against: rateOf(against) }
}

const rateOf = ({ bytes, ms }: StreamRead): number => bytes / MEGABYTE / (ms / 1000)

async function firstByte(context: BenchContext, stage: Stage, process: RoleProcess): Promise<Entry> {
  const times: number[] = []
  for (let start = 0; start < (context.isQuick ? STARTS / 10 : STARTS); start++) {
    context.say(`first bytes: ${start} of ${STARTS}`)
    // A key has one stream at a time, and the one before may still be ending.
    times.push(await timeToFirstByte(questionOf(process, await newKey(stage), 'gzip')))
  }
  return figureEntry(
    { name: 'POST /prices, all asks: first byte, p99', unit: 'ms', better: 'lower' },
    percentile(times, 0.99),
  )
}

async function memory(context: BenchContext, stage: Stage, process: RoleProcess): Promise<Entry> {
  const keys = await Promise.all(Array.from({ length: READERS }, () => newKey(stage)))
  const before = (await process.figures()).residentMib
  let peak = before
  let isReading = true
  const watch = (async () => {
    while (isReading) {
      peak = Math.max(peak, (await process.figures()).residentMib)
      await pause(SAMPLE_MS)
    }
  })()
  for (const { coding, label } of CODINGS) {
    for (let round = 1; round <= ROUNDS; round++) {
      context.say(`${READERS} readers, ${label}: round ${round} of ${ROUNDS}`)
      await Promise.all(keys.map(key => readStream(questionOf(process, key, coding))))
    }
  }
  isReading = false
  await watch
  const name = `POST /prices, all asks: growth of memory by ${READERS} readers at once`
  return figureEntry({ name, unit: 'MiB', better: 'lower' }, peak - before)
}
