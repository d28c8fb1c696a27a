/**
 * Asks the API for the same things again and again, and holds each answer against the one that was right. One request for each at a time,
 * since a key may have one bulk stream; the refusal of a stream while the lease of one that broke off is held counts as no answer. What is
 * neither none nor 503 nor 200 is wrong.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { eventually } from '#test/harness/eventually.ts'

export type Answers = ReturnType<typeof openAnswers>

interface Answer {
  status: number
  text: string
}

const NO_ANSWER: Answer = { status: 0, text: '' }
const STREAM_HELD = 409
const EVERY_MS = 50
const LIMIT_MS = 10_000

/** Asks an API, whose address may be unknown for a while, for some paths by their names; those that begin with `POST ` are posted. */
export function openAnswers(
  key: string,
  address: () => Promise<string | undefined>,
  paths: Readonly<Record<string, string>>,
) {
  const ending = new AbortController()
  let right: Map<string, string> | undefined
  let wrong: string[] = []
  let refusals = new Set<string>()

  const askNow = async (path: string): Promise<Answer> => {
    try {
      const [, post = 'GET', from = ''] = /^(POST)? ?(.*)$/.exec(path) ?? []
      const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(LIMIT_MS)])
      const answer = await fetch((await address()) + from, {
        method: post,
        headers: { authorization: `Bearer ${key}` },
        signal,
      })
      if (post === 'POST' && answer.status === STREAM_HELD) return NO_ANSWER
      return { status: answer.status, text: shown(await answer.text()) }
    } catch {
      return NO_ANSWER
    }
  }
  const asked = new Map<string, Promise<Answer>>()
  const ask = (path: string): Promise<Answer> => {
    const answer = (asked.get(path) ?? Promise.resolve()).then(() => askNow(path))
    asked.set(path, answer)
    return answer
  }
  const judge = (name: string, { status, text }: Answer): void => {
    if (status === 503) refusals.add(name)
    if (status === 0 || status === 503) return
    const wanted = right?.get(name)
    if (status !== 200) wrong.push(`${name} was ${status}: ${text.slice(0, 200)}`)
    else if (wanted !== undefined && wanted !== text)
      wrong.push(`${name} was ${text.slice(0, 400)}\n instead of ${wanted.slice(0, 400)}`)
  }
  const asking = Object.entries(paths).map(async ([name, path]) => {
    while (!ending.signal.aborted) {
      judge(name, await ask(path))
      await pause(EVERY_MS)
    }
  })
  const askAll = async (): Promise<[string, Answer][]> =>
    Promise.all(Object.entries(paths).map(async ([name, path]) => [name, await ask(path)]))

  return {
    async whole(limitMs: number): Promise<void> {
      let last: [string, Answer][] = []
      const areThere = async () => {
        last = await askAll()
        return last.every(([, { status }]) => status === 200)
      }
      await eventually(areThere, 'all to be answered', limitMs).catch(error => {
        throw new Error(`${error.message}: ${JSON.stringify(last.map(([name, { status }]) => [name, status]))}`)
      })
    },
    /** Does some work while each answer is the one of before, or refused; each of `refused` must have been refused. */
    async expectUnchanged(work: () => Promise<void>, refused: readonly string[]): Promise<void> {
      right = new Map((await askAll()).map(([name, { text }]) => [name, text]))
      wrong = []
      refusals = new Set()
      await work()
      right = undefined
      expect(wrong.slice(0, 3), `${wrong.length} wrong answers`).to.deep.equal([])
      expect([...refusals], 'refused meanwhile').to.include.members([...refused])
    },
    async stop(): Promise<void> {
      ending.abort()
      await Promise.all(asking)
    },
  }
}

/** An answer without what tells of its own making: of a bulk stream not the order of its rows. */
function shown(text: string): string {
  try {
    const { meta, pagination, ...rest } = JSON.parse(text)
    return JSON.stringify(rest)
  } catch {
    return text.split('\n').sort().join('\n')
  }
}
