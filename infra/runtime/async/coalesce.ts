/** Equal requests once: those of one moment share one piece of work, so that at most one is running and one is waiting. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import PQueue from 'p-queue'

/**
 * Gathers requests while the work before is under way, and until `gathering` resolves: within a turn of the event loop unless given.
 * `work` resolves with an answer for each, in their order. A failure rejects the requests that were gathered with it, and no others.
 */
export function coalesce<Request, Answer>(
  work: (requests: readonly Request[]) => Promise<readonly Answer[]>,
  gathering: () => Promise<unknown> = () => nextTurn(),
): (request: Request) => Promise<Answer> {
  const queue = new PQueue({ concurrency: 1 })
  let gathered: Request[] = []
  let answers: Promise<readonly Answer[]> | undefined
  return async request => {
    const at = gathered.push(request) - 1
    answers ??= queue.add(async () => {
      await gathering()
      const requests = gathered
      gathered = []
      answers = undefined
      return work(requests)
    })
    return (await answers)[at] as Answer
  }
}

/** The same for requests that are all alike. */
export function coalesceAlike<Answer>(work: () => Promise<Answer>): () => Promise<Answer> {
  const ask = coalesce<undefined, Answer>(async requests => {
    const answer = await work()
    return requests.map(() => answer)
  })
  return () => ask(undefined)
}

/** One answer for all that ask while it is on its way, and for some milliseconds after it came. A failure is not kept. */
export function cached<Answer>(ask: () => Promise<Answer>, forMs: number): { get(): Promise<Answer>; forget(): void } {
  let cache: { answer: Promise<Answer>; until: number } | undefined
  return {
    get() {
      if (cache !== undefined && performance.now() < cache.until) return cache.answer
      const own = { answer: ask(), until: Number.POSITIVE_INFINITY }
      cache = own
      own.answer.then(
        () => {
          own.until = performance.now() + forMs
        },
        () => {
          if (cache === own) cache = undefined
        },
      )
      return own.answer
    },
    forget() {
      cache = undefined
    },
  }
}
