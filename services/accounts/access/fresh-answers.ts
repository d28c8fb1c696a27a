/**
 * Answers on credentials, none older than FRESH_MS: the memory behind the check that every authenticated request passes.
 *
 * Writes nothing. Invariant: an answer rests on a query that was sent less than FRESH_MS ago, so a revocation is in force within that
 * time whatever happens to connections; when Postgres is lost, known credentials pass for as long and no longer. Known ones are
 * answered from memory without waiting. All that are in use are asked for again by ONE query per REFRESH_MS, and unknown ones join the
 * next query, so the load does not grow with requests or attackers. Left out: LISTEN/NOTIFY. A connection that is cut in silence
 * sends nothing, so the bound would rest on the same query anyway.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { KeyAnswer } from '#infra/http/credential.ts'

/** The answers on credentials of one kind, by an id of each. */
export interface FreshAnswers {
  /** Answers at once for what was asked for lately, else by the next query; rejects when that fails. */
  judge(id: string): KeyAnswer | Promise<KeyAnswer>
  /** Forgets what is known of an account's credentials, so that a change made here is in force here at once. */
  forget(accountId: string): void
}

interface Known {
  answer: KeyAnswer
  /** Monotonic time at which the query was sent. */
  askedAt: number
}

const FRESH_MS = 900
const GATHERED_MS = 10
const REFRESH_MS = 400
const BATCH = 1_000
const WAITING_MAX = 10_000
const KNOWN_MAX = 50_000

/** Opens the memory of answers given lately, in bounded number. */
function openMemory() {
  const known = new Map<string, Known>()
  let forgotten = 0
  return {
    entryOf: (id: string): Known | undefined => known.get(id),
    /** Counts what was forgotten: an answer that was asked for before may be older than the change. */
    state: (): number => forgotten,
    keep(id: string, entry: Known): void {
      if (known.size >= KNOWN_MAX) known.clear()
      known.set(id, entry)
    },
    drop: (id: string): boolean => known.delete(id),
    forget(accountId: string): void {
      forgotten += 1
      for (const [id, { answer }] of known) {
        if (answer.accepted && answer.credential.accountId === accountId) known.delete(id)
      }
    },
  }
}

/** Opens the answers; `query` asks Postgres for those there are, `unknown` is that on all others, `now` is monotonic in milliseconds. */
export function openFreshAnswers(
  query: (ids: readonly string[]) => Promise<Map<string, KeyAnswer>>,
  unknown: KeyAnswer,
  now: () => number = () => performance.now(),
): FreshAnswers {
  const memory = openMemory()
  const waiting = new Map<string, PromiseWithResolvers<KeyAnswer>>()
  let isAsking = false

  const ask = (id: string): Promise<KeyAnswer> => {
    const pending = waiting.get(id)
    if (pending) return pending.promise
    if (waiting.size >= WAITING_MAX) return Promise.reject(new Error('too many credentials wait for Postgres'))
    const wanted = Promise.withResolvers<KeyAnswer>()
    waiting.set(id, wanted)
    if (!isAsking) void askAll()
    return wanted.promise
  }

  async function askAll(): Promise<void> {
    isAsking = true
    // Requests of one turn of the event loop share a query.
    await new Promise(setImmediate)
    while (waiting.size > 0) {
      const batch = [...waiting].slice(0, BATCH)
      for (const [id] of batch) waiting.delete(id)
      await askBatch(new Map(batch))
      // What comes meanwhile shares the next query: 300 unknown ones a second were as many queries, and a fifth of a core of Postgres.
      await delay(GATHERED_MS)
    }
    isAsking = false
  }

  async function askBatch(batch: Map<string, PromiseWithResolvers<KeyAnswer>>): Promise<void> {
    const askedAt = now()
    const stateBefore = memory.state()
    try {
      const answers = await query([...batch.keys()])
      for (const [id, wanted] of batch) {
        const answer = answers.get(id)
        // Unknown ones are not kept: the next moment may create them, and their number is the attacker's choice.
        if (answer && memory.state() === stateBefore) memory.keep(id, { answer, askedAt })
        else memory.drop(id)
        wanted.resolve(answer ?? unknown)
      }
    } catch (error) {
      for (const wanted of batch.values()) wanted.reject(error)
    }
  }

  return {
    judge(id) {
      const entry = memory.entryOf(id)
      const ageMs = entry ? now() - entry.askedAt : Number.POSITIVE_INFINITY
      if (!entry || ageMs >= FRESH_MS) return ask(id)
      // A failure shows when the entry has aged: until then the credential passes.
      if (ageMs >= REFRESH_MS) ask(id).catch(() => undefined)
      return entry.answer
    },
    forget: memory.forget,
  }
}
