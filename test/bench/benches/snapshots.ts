/**
 * POST /prices, all asks as one stream: its first byte, its throughput against a file server with the same bytes, and
 * the memory that eight readers at once cost.
 *
 * Plain and gzip, in turns with the file server, one reader and the market at rest. An answer that is no 200, or that is cut, fails
 * the benchmark.
 */
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import { newKey } from '../account-keys.ts'
import { startBaseline } from '../baseline.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type Entry, entryOf, type Turn } from '../entry.ts'
import { requireSome } from '../requirements.ts'
import type { RoleProcess } from '../role-process.ts'
import { type Stage, serveApi } from '../stage.ts'
import { percentile } from '../statistics.ts'

const TURNS = 5
const STARTS = 200
const READERS = 8
const ROUNDS = 2
const SAMPLE_MS = 200
const BUILD_LIMIT_MS = 120_000
const READ_LIMIT_MS = 60_000
const MEGABYTE = 1e6
const CODINGS = [
  { coding: 'identity', label: 'plain' },
  { coding: 'gzip', label: 'gzip' },
]

export const snapshots: Bench = {
  name: 'snapshots',
  about: 'POST /prices, all asks: first byte, throughput against a file server, memory of eight readers',
  async run(context) {
    const stage = await context.stage()
    const process = await serveApi(stage, context.say)
    context.say('waiting for the first snapshot')
    const question = questionOf(process, await newKey(stage), 'gzip')
    await eventually(async () => (await read(question)).bytes > 0, 'a snapshot', BUILD_LIMIT_MS)
    const entries = await throughput(context, stage, process)
    entries.push(await firstByte(context, stage, process), await memory(context, stage, process))
    return entries
  },
}

interface Question {
  url: string
  method: 'GET' | 'POST'
  headers: Record<string, string>
}

function questionOf({ baseUrl }: RoleProcess, key: string, coding: string): Question {
  const headers = { authorization: `Bearer ${key}`, 'accept-encoding': coding }
  return { url: `${baseUrl}/v1/prices`, method: 'POST', headers }
}

/** Reads an answer to its end as fast as it comes; `keep` is given its bytes. */
async function read(question: Question, keep?: (bytes: Buffer) => void): Promise<{ bytes: number; perSecond: number }> {
  const startedAt = performance.now()
  let bytes = 0
  for await (const chunk of await answerTo(question)) {
    bytes += chunk.length
    keep?.(chunk)
  }
  return { bytes, perSecond: (bytes / MEGABYTE / (performance.now() - startedAt)) * 1_000 }
}

/** Milliseconds until the first byte of the body; hangs up then. */
async function timeToFirstByte(question: Question): Promise<number> {
  const startedAt = performance.now()
  for await (const _ of await answerTo(question)) return performance.now() - startedAt
  throw new Error(`${question.url} sent nothing`)
}

async function answerTo({ url, method, headers }: Question): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = httpRequest(url, { method, headers, agent: false, timeout: READ_LIMIT_MS }, resolve)
  request.on('timeout', () => request.destroy(new Error(`${url} sent nothing for ${READ_LIMIT_MS} ms`)))
  request.on('error', reject).end()
  const answer = await promise
  if (answer.statusCode === 200) return answer
  answer.destroy()
  throw new Error(`${method} ${url} answered ${answer.statusCode}`)
}

async function throughput(context: BenchContext, stage: Stage, process: RoleProcess): Promise<Entry[]> {
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-bench-'))
  const files = startBaseline('bare-express')
  const entries: Entry[] = []
  try {
    const baseUrl = await files.ask<string>('serveFolder', folder)
    for (const { coding, label } of CODINGS) {
      const ours = questionOf(process, await newKey(stage), coding)
      const file = createWriteStream(join(folder, label))
      await read(ours, bytes => void file.write(bytes))
      file.end()
      await finished(file)
      requireSome(`bytes of a ${label} snapshot`, file.bytesWritten)
      const bare: Question = { url: `${baseUrl}/${label}`, method: 'GET', headers: {} }
      const turns: Turn[] = []
      const count = context.isQuick ? 2 : TURNS
      for (let turn = 0; turn < count; turn++) {
        context.signal.throwIfAborted()
        context.say(`${label}: turn ${turn + 1} of ${count}`)
        // Each comes first as often.
        const early = turn % 2 === 0 ? undefined : await read(bare)
        const value = await read(ours)
        const against = early ?? (await read(bare))
        if (value.bytes !== against.bytes) throw new Error(`${value.bytes} bytes, the file has ${against.bytes}`)
        turns.push({ value: value.perSecond, against: against.perSecond })
      }
      entries.push(entryOf(`POST /prices, all asks, ${label}: throughput, against a file server`, 'MB/s', turns))
    }
    return entries
  } finally {
    await files.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function firstByte(context: BenchContext, stage: Stage, process: RoleProcess): Promise<Entry> {
  const times: number[] = []
  for (let start = 0; start < (context.isQuick ? STARTS / 10 : STARTS); start++) {
    context.say(`first bytes: ${start} of ${STARTS}`)
    // A key has one stream at a time, and the one before may still be ending.
    times.push(await timeToFirstByte(questionOf(process, await newKey(stage), 'gzip')))
  }
  return entryOf('POST /prices, all asks: first byte, p99', 'ms', percentile(times, 0.99))
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
      await Promise.all(keys.map(key => read(questionOf(process, key, coding))))
    }
  }
  isReading = false
  await watch
  return entryOf(`POST /prices, all asks: growth of memory by ${READERS} readers at once`, 'MiB', peak - before)
}
