/** What a page costs its browser, by the DevTools protocol of Chromium. */
import type { Browser, Page } from 'playwright-core'
import { worst } from './statistics.ts'

const TASK = 'RunTask'
const MAIN_THREAD = 'CrRendererMain'
/** The browser has made the document, and the tool that drives it the worlds of its own scripts. */
const COMMIT = 'CommitLoad'
const MIB = 2 ** 20

interface TraceEvent {
  name: string
  pid: number
  tid: number
  /** Microseconds. */
  ts: number
  args: { name?: string }
  /** Microseconds of its thread's processor time. */
  tdur?: number
}

/**
 * The longest task of a page's main thread while work is done, in milliseconds, and the share of the time that its tasks take.
 *
 * Both are processor time of the thread, which nothing else on the same cores lengthens. Where a page is opened, its tasks begin with its document.
 * The browser's spare renderers do less than the page's.
 */
export async function mainThreadDuring(browser: Browser, page: Page, work: () => Promise<void>) {
  await browser.startTracing(page, { categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline'] })
  const startedAt = performance.now()
  await work()
  const ms = performance.now() - startedAt
  const { traceEvents }: { traceEvents: TraceEvent[] } = JSON.parse(String(await browser.stopTracing()))
  const threadOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`
  const mains = new Set(
    traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === MAIN_THREAD).map(threadOf),
  )
  const begin = worst([0, ...traceEvents.filter(({ name }) => name === COMMIT).map(({ ts }) => ts)])
  const tasks = traceEvents.filter(event => event.name === TASK && event.ts > begin && mains.has(threadOf(event)))
  const threads = [...Map.groupBy(tasks, threadOf).values()].map(events => {
    const times = events.map(({ tdur = 0 }) => tdur / 1_000)
    return { longestMs: worst(times), share: times.reduce((sum, time) => sum + time, 0) / ms }
  })
  const [busiest] = threads.toSorted((a, b) => b.share - a.share)
  if (!busiest) throw new Error('the trace has no task of a page')
  return busiest
}

/** The scripts of an origin as a browser has them now, the shared worker's among them. */
export async function openScripts(browser: Browser, origin: string) {
  const session = await browser.newBrowserCDPSession()
  const { targetInfos } = await session.send('Target.getTargets')
  const targets = targetInfos.filter(
    ({ type, url }) => (type === 'page' || type === 'shared_worker') && url.startsWith(origin),
  )
  const sessions = await Promise.all(targets.map(({ targetId }) => session.send('Target.attachToTarget', { targetId })))
  let asked = 0
  const ask = (sessionId: string, method: string): Promise<{ usedSize: number; backingStorageSize: number }> => {
    const id = ++asked
    const { promise, resolve, reject } = Promise.withResolvers<{ usedSize: number; backingStorageSize: number }>()
    const take = ({ message }: { message: string }): void => {
      const answer = JSON.parse(message)
      if (answer.id !== id) return
      session.off('Target.receivedMessageFromTarget', take)
      if (answer.error) reject(new Error(`${method}: ${answer.error.message}`))
      else resolve(answer.result)
    }
    session.on('Target.receivedMessageFromTarget', take)
    session.send('Target.sendMessageToTarget', { sessionId, message: JSON.stringify({ id, method }) }).catch(reject)
    return promise
  }
  return {
    workers: targets.filter(({ type }) => type === 'shared_worker').map(({ url }) => url),
    /** What is reachable after a collection of garbage, arrays of numbers included. */
    async heapMib(): Promise<number> {
      let bytes = 0
      for (const { sessionId } of sessions) {
        await ask(sessionId, 'HeapProfiler.collectGarbage')
        const { usedSize, backingStorageSize } = await ask(sessionId, 'Runtime.getHeapUsage')
        bytes += usedSize + backingStorageSize
      }
      return bytes / MIB
    },
    close: () => session.detach(),
  }
}
