/**
 * The choice for roles whose answers pass through buffers: fewer markings of the whole heap, and an end to growth.
 *
 * Each measurement is a process of its own, since V8's flags are a process's.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect } from 'chai'

const run = promisify(execFile)
const HEAP = new URL('../../infra/runtime/heap.ts', import.meta.url).href

/** Reads beside a heap of 200 MB, 4 MB of buffers each of which `kept` stay; counts the markings of the whole heap. */
const READS = `
import { createHash } from 'node:crypto'
import { PerformanceObserver, constants } from 'node:perf_hooks'
const { countBuffersWithHeap, collectGarbage } = await import(process.argv[1])
const [isCounted, reads, kept] = process.argv.slice(2).map(Number)
if (isCounted) countBuffersWithHeap()
const heap = Array.from({ length: 1_500_000 }, (_, i) => ({ i, name: 'item ' + i, values: [i] }))
collectGarbage()
let marked = 0
const count = entries => { for (const { detail } of entries) if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) marked++ }
const observer = new PerformanceObserver(list => count(list.getEntries()))
observer.observe({ entryTypes: ['gc'] })
const ring = []
let most = 0
for (let read = 0; read < reads; read++) {
  const buffers = Array.from({ length: 32 }, () => Buffer.alloc(131_072, 1))
  // An answer takes time to make; while it is made, marking goes on beside.
  const hash = createHash('sha256')
  for (let time = 0; time < 4; time++) for (const buffer of buffers) hash.update(buffer)
  if (kept > 0) ring[read % kept] = buffers
  await new Promise(resolve => setImmediate(resolve))
  most = Math.max(most, process.memoryUsage().arrayBuffers)
}
// A marking is reported some turns after it.
for (let turn = 0; turn < 1_000; turn++) await new Promise(resolve => setImmediate(resolve))
count(observer.takeRecords())
console.log(JSON.stringify({ marked, most, length: heap.length }))
`

async function measured(isCounted: boolean, reads: number, kept = 0): Promise<{ marked: number; most: number }> {
  const values = [isCounted ? 1 : 0, reads, kept].map(String)
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', READS, HEAP, ...values])
  return JSON.parse(stdout)
}

describe('buffers that are counted with the heap', () => {
  it('have it marked less than a third as often', async () => {
    const [counted, alone] = [await measured(true, 200), await measured(false, 200)]
    console.log(`      markings of the heap in 200 reads: ${counted.marked}, by themselves ${alone.marked}`)
    expect(alone.marked).to.be.above(5)
    expect(counted.marked).to.be.below(alone.marked / 3)
  })

  it('are collected before they come to three times what is held', async () => {
    const KEPT = 50
    const { marked, most } = await measured(true, 400, KEPT)
    expect(marked).to.be.above(0)
    expect(most).to.be.below(3 * (KEPT * 4 * 2 ** 20 + 200e6))
  })
})
