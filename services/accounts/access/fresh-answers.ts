/**
 * Answers on credentials, none older than FRESH_MS: the memory behind the check that every authenticated request passes.
 *
 * Writes nothing. Invariant: an answer rests on a query that was sent less than FRESH_MS ago, so a revocation is in force within that
 * time whatever happens to connections; when Postgres is lost, credentials in memory pass for as long and no longer. Those are
 * answered without waiting. All that are in use are read again by ONE query per REFRESH_MS, and others join the
 * next query, so the load does not grow with requests or attackers. Left out: LISTEN/NOTIFY. A connection that is cut in silence
 * sends nothing, so the bound would rest on the same query anyway.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { KeyAnswer } from '#infra/http/credential.ts'

/** The answers on credentials of one kind, by an id of each. */
export interface FreshAnswers {
  /** Answers at once from memory, else by the next query; rejects when that fails. */
  answerOn(id: string): KeyAnswer | Promise<KeyAnswer>
  /** Forgets an account's credentials, so that a change made here is in force here at once. */
  forget(accountId: string): void
}

const FRESH_MS = 900
const GATHERED_MS = 10
const REFRESH_MS = 400
const BATCH = 1_000
const WAITING_MAX = 10_000
const ANSWERS_MAX = 50_000

/** `query` reads from Postgres those that exist, `unknown` is the answer on all others, `now` is monotonic in milliseconds. */
export function openFreshAnswers(
  query: (ids: readonly string[]) => Promise<Map<string, KeyAnswer>>,
  unknown: KeyAnswer,
  now: () => number = () => performance.now(),
): FreshAnswers {
  const answers = new Map<string, { answer: KeyAnswer; sentAt: number }>()
  const waiting = new Map<string, PromiseWithResolvers<KeyAnswer>>()
  /** How often something was forgotten: an answer to a query sent before may be older than the change. */
  let changes = 0
  let isReading = false

  const read = (id: string): Promise<KeyAnswer> => {
    const pending = waiting.get(id)
    if (pending) return pending.promise
    if (waiting.size >= WAITING_MAX) return Promise.reject(new Error('too many credentials wait for Postgres'))
    const answered = Promise.withResolvers<KeyAnswer>()
    waiting.set(id, answered)
    if (!isReading) void readAll()
    return answered.promise
  }

  async function readAll(): Promise<void> {
    isReading = true
    // Requests of one turn of the event loop share a query.
    await new Promise(setImmediate)
    while (waiting.size > 0) {
      const batch = [...waiting].slice(0, BATCH)
      for (const [id] of batch) waiting.delete(id)
      await readBatch(batch)
      // What comes meanwhile shares the next query: 300 unknown ones a second were as many queries, and a fifth of a core of Postgres.
      await delay(GATHERED_MS)
    }
    isReading = false
  }

  async function readBatch(batch: readonly [id: string, PromiseWithResolvers<KeyAnswer>][]): Promise<void> {
    const sentAt = now()
    const changesBefore = changes
    try {
      const rows = await query(batch.map(([id]) => id))
      for (const [id, { resolve }] of batch) {
        const answer = rows.get(id)
        answers.delete(id)
        // Unknown ones are not stored: the next moment may create them, and their number is the attacker's choice.
        if (answer && changes === changesBefore) {
          if (answers.size >= ANSWERS_MAX) answers.clear()
          answers.set(id, { answer, sentAt })
        }
        resolve(answer ?? unknown)
      }
    } catch (error) {
      for (const [, { reject }] of batch) reject(error)
    }
  }

  return {
    answerOn(id) {
      const stored = answers.get(id)
      const ageMs = stored ? now() - stored.sentAt : Number.POSITIVE_INFINITY
      if (!stored || ageMs >= FRESH_MS) return read(id)
      // A failure shows when the answer has aged: until then the credential passes.
      if (ageMs >= REFRESH_MS) read(id).catch(() => undefined)
      return stored.answer
    },
    forget(accountId) {
      changes += 1
      for (const [id, { answer }] of answers) {
        if (answer.accepted && answer.credential.accountId === accountId) answers.delete(id)
      }
    },
  }
}
