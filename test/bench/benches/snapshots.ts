/**
 * POST /prices, all asks as one stream: its first byte, its throughput against a file server with the same bytes, and
 * the memory that eight readers at once cost.
 *
 * Plain and gzip, in turns with the file server, one reader and the market at rest. An answer that is no 200, or that is cut, fails
 * the benchmark.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import type { Reading, ReadingSeen } from '../baselines/http-clients.ts'
import type { Bench, BenchContext } from '../bench.ts'
import type { BenchRole } from '../bench-platform.ts'
import { type Entry, entryOf, percentile, requireSome, type Turn } from '../entry.ts'
import type { Stage } from '../stage.ts'
import { serveApi } from '../whole-platform.ts'

const TURNS = 5
const STARTS = 200
const READERS = 8
const ROUNDS = 2
const SAMPLE_MS = 200
const BUILD_LIMIT_MS = 120_000
const MEGABYTE = 1e6
const PATH = '/v1/prices'
const CODINGS = [
  { coding: 'identity', label: 'plain' },
  { coding: 'gzip', label: 'gzip' },
]

export const snapshots: Bench = {
  name: 'snapshots',
  about: 'POST /prices, all asks: first byte, throughput against a file server, memory of eight readers',
  async run(context) {
    const stage = await context.stage()
    const process = await serveApi(context, stage)
    const clients = context.baseline('http-clients')
    const read: Snapshots['read'] = more => clients.ask('read', { readers: 1, until: { answers: 1 }, ...more })
    const setup = { context, stage, process, read }
    context.say('waiting for the first snapshot')
    const question = await snapshotOf(setup, 'gzip')
    await eventually(() => read(question).then(() => true), 'a snapshot', BUILD_LIMIT_MS)
    return [...(await throughput(setup)), await firstByte(setup), await memory(setup)]
  },
}

interface Snapshots {
  context: BenchContext
  stage: Stage
  process: BenchRole
  read(reading: Question & Partial<Reading>): Promise<ReadingSeen>
}

type Question = Pick<Reading, 'baseUrl' | 'method' | 'headers' | 'questions'>

/** By a new key: a key has one stream at a time, and the one before may still be ending. */
async function snapshotOf({ process, stage }: Snapshots, coding: string): Promise<Question> {
  const headers = { authorization: `Bearer ${await stage.newKey()}`, 'accept-encoding': coding }
  return { baseUrl: process.url, method: 'POST', questions: [{ path: PATH }], headers }
}

async function rateOf({ read }: Snapshots, question: Question): Promise<{ bytes: number; perSecond: number }> {
  const { bytes, wholeMs } = await read(question)
  return { bytes, perSecond: (bytes / MEGABYTE / (wholeMs[0] ?? Number.NaN)) * 1_000 }
}

async function throughput(setup: Snapshots): Promise<Entry[]> {
  const { context, read } = setup
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-bench-'))
  const files = context.baseline('bare-express')
  const entries: Entry[] = []
  try {
    const baseUrl = await files.ask<string>('serveFolder', folder)
    for (const { coding, label } of CODINGS) {
      const ours = await snapshotOf(setup, coding)
      const { bytes } = await read({ ...ours, file: join(folder, label) })
      requireSome(`bytes of a ${label} snapshot`, bytes)
      const bare: Question = { baseUrl, method: 'GET', questions: [{ path: `/${label}` }], headers: {} }
      const turns: Turn[] = []
      const count = context.isQuick ? 2 : TURNS
      for (let turn = 0; turn < count; turn++) {
        context.signal.throwIfAborted()
        context.say(`${label}: turn ${turn + 1} of ${count}`)
        // Each comes first as often.
        const early = turn % 2 === 0 ? undefined : await rateOf(setup, bare)
        const value = await rateOf(setup, ours)
        const against = early ?? (await rateOf(setup, bare))
        if (value.bytes !== against.bytes) throw new Error(`${value.bytes} bytes, the file has ${against.bytes}`)
        turns.push({ value: value.perSecond, against: against.perSecond })
      }
      entries.push(entryOf(`POST /prices, all asks, ${label}: throughput, against a file server`, 'MB/s', turns))
    }
    return entries
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function firstByte(setup: Snapshots): Promise<Entry> {
  const { context, read } = setup
  const times: number[] = []
  for (let start = 0; start < (context.isQuick ? STARTS / 10 : STARTS); start++) {
    context.say(`first bytes: ${start} of ${STARTS}`)
    times.push(...(await read({ ...(await snapshotOf(setup, 'gzip')), isBegun: true })).firstByteMs)
  }
  return entryOf('POST /prices, all asks: first byte, p99', 'ms', percentile(times, 0.99))
}

async function memory(setup: Snapshots): Promise<Entry> {
  const { context, process, read } = setup
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
      const each = await Promise.all(Array.from({ length: READERS }, () => snapshotOf(setup, coding)))
      const questions = each.map(({ headers }) => ({ path: PATH, headers }))
      await read({ ...(each[0] as Question), questions, readers: READERS, until: { answers: READERS } })
    }
  }
  isReading = false
  await watch
  return entryOf(`POST /prices, all asks: growth of memory by ${READERS} readers at once`, 'MiB', peak - before)
}
