/** One piece of work for all that ask for it at the same moment, and for those who ask while the one before is under way. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Gathers what is asked for within a turn of the event loop; `work` resolves with an answer for each, in their order. */
export function openGathering<Asked, Answer>(
  work: (asked: readonly Asked[]) => Promise<readonly Answer[]>,
): (asked: Asked) => Promise<Answer> {
  let waiting: { asked: Asked; answered: PromiseWithResolvers<Answer> }[] = []
  let running = Promise.resolve()
  const workOff = async (): Promise<void> => {
    const taken = waiting
    waiting = []
    if (taken.length === 0) return
    try {
      const answers = await work(taken.map(({ asked }) => asked))
      for (const [at, { answered }] of taken.entries()) answered.resolve(answers[at] as Answer)
    } catch (error) {
      for (const { answered } of taken) answered.reject(error)
    }
  }
  return asked => {
    const answered = Promise.withResolvers<Answer>()
    waiting.push({ asked, answered })
    running = running.then(() => nextTurn()).then(workOff)
    return answered.promise
  }
}
