/**
 * A baseline that a benchmark measures against, as a process of its own: started once, asked to measure in turns.
 *
 * Parent and child exchange messages over the channel that `fork` opens: one question, one answer. The child measures itself
 * and ends when its channel closes, so it never outlives the run.
 */
import { fork } from 'node:child_process'
import { join } from 'node:path'
import { within } from '#test/harness/eventually.ts'

export type Baseline = ReturnType<typeof startBaseline>

export type Answers = Record<string, (argument: never) => Promise<unknown>>

interface Question {
  question: string
  argument: unknown
}

type Answer = { result: unknown } | { failure: string }

const ANSWER_LIMIT_MS = 180_000

/** Starts a program of baselines/; `prefix` is a command that starts it. */
export function startBaseline(name: string, prefix: readonly string[] = []) {
  const program = join(import.meta.dirname, 'baselines', `${name}.ts`)
  const [execPath, ...execArgv] = [...prefix, process.execPath, ...process.execArgv] as [string, ...string[]]
  const child = fork(program, { execPath, execArgv, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const ended = new Promise<void>(resolve => void child.once('exit', () => resolve()))
  let last: Promise<unknown> = Promise.resolve()
  const put = async (question: string, argument: unknown): Promise<unknown> => {
    const answer = new Promise<Answer>((resolve, reject) => {
      child.once('message', resolve as (message: unknown) => void)
      void ended.then(() => reject(new Error(`${program} ended`)))
    })
    if (child.connected) child.send({ question, argument } satisfies Question)
    const given = await within(answer, `the answer to ${question}`, ANSWER_LIMIT_MS)
    if ('failure' in given) throw new Error(given.failure)
    return given.result
  }
  return {
    pid: child.pid,
    ask<T>(question: string, argument: unknown): Promise<T> {
      const asked = last.then(() => put(question, argument))
      last = asked.catch(() => undefined)
      return asked as Promise<T>
    },
    async stop(): Promise<void> {
      if (child.connected) child.disconnect()
      await ended
    },
  }
}

/** The child's side: answers until the channel closes. */
export function answerAsBaseline(answers: Answers): void {
  process.on('disconnect', () => process.exit(0))
  process.on('message', ({ question, argument }: Question) => {
    const reply = (answer: Answer): void => void process.send?.(answer)
    Promise.resolve()
      .then(() => answers[question]?.(argument as never))
      .then(
        result => reply({ result }),
        (error: Error) => reply({ failure: error.stack ?? String(error) }),
      )
  })
}

export interface Measured {
  count: number
  ms: number
  cpuSeconds: number
}

/** Measures work: its wall time and this process's CPU time; the work says how much it did. */
export async function measured(work: () => Promise<number>): Promise<Measured> {
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  const count = await work()
  const ms = performance.now() - startedAt
  const { user, system } = process.cpuUsage(cpu)
  return { count, ms, cpuSeconds: (user + system) / 1e6 }
}
