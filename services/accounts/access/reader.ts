/**
 * Authenticates the Bearer credential of a request: the check that every authenticated request passes.
 *
 * Reads accounts and api_keys, writes nothing; shared by the roles that answer clients. Invariant: an answer rests on a query that was
 * sent less than FRESH_MS ago, so a revocation is in force within that time whatever happens to connections; when Postgres is lost,
 * credentials in memory pass for as long and no longer. Those are answered without waiting. All that are in use are read again by ONE
 * query per REFRESH_MS, and others join the next query, so the load does not grow with requests or attackers. Left out: LISTEN/NOTIFY. A
 * connection that is cut in silence sends nothing, so the bound would rest on the same query anyway.
 */
import { hash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { CountFirst, Credential, KeyAnswer, RefusalCode } from '#infra/http/credential.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { coalesce } from '#infra/runtime/async/coalesce.ts'
import type { Access } from '#schemas/api/operation.ts'

const FRESH_MS = 900
const REFRESH_MS = 400
/** Between two queries: 300 unknown keys a second were as many queries, and a fifth of a core of Postgres. */
const GATHERED_MS = 10
const WAITING_MAX = 10_000
const ANSWERS_MAX = 50_000

/**
 * The answers on credentials of one kind, by an id of each. `query` reads from Postgres those that exist, `unknown` is the answer on all
 * others, `now` is monotonic in milliseconds.
 */
export function openFreshAnswers(
  query: (ids: readonly string[]) => Promise<Map<string, KeyAnswer>>,
  unknown: KeyAnswer,
  now: () => number = () => performance.now(),
) {
  const answers = new Map<string, { answer: KeyAnswer; sentAt: number }>()
  let pending = new Map<string, Promise<KeyAnswer>>()
  let lastSentAt = Number.NEGATIVE_INFINITY

  const gathering = (): Promise<void> => delay(Math.max(0, lastSentAt + GATHERED_MS - now()))
  const readGathered = coalesce<string, KeyAnswer>(async ids => {
    const sentAt = now()
    lastSentAt = sentAt
    const pendingBefore = pending
    const rows = await query(ids)
    // An answer to a query that was sent before something was forgotten may be older than the change. Unknown ones are not stored: the next
    // moment may create them, and their number is the attacker's choice.
    for (const [id, answer] of pending === pendingBefore ? rows : []) {
      if (answers.size >= ANSWERS_MAX) answers.clear()
      answers.set(id, { answer, sentAt })
    }
    return ids.map(id => rows.get(id) ?? unknown)
  }, gathering)
  function read(id: string): Promise<KeyAnswer> {
    if (pending.size >= WAITING_MAX) return Promise.reject(new Error('too many credentials wait for Postgres'))
    const reading = pending.get(id) ?? readGathered(id).finally(() => pending.delete(id))
    pending.set(id, reading)
    return reading
  }

  return {
    /** Answers at once from memory, else by the next query; rejects when that fails. */
    answerOn(id: string): KeyAnswer | Promise<KeyAnswer> {
      const stored = answers.get(id)
      const ageMs = stored ? now() - stored.sentAt : Number.POSITIVE_INFINITY
      if (!stored || ageMs >= FRESH_MS) return read(id)
      // A failure shows when the answer has aged: until then the credential passes.
      if (ageMs >= REFRESH_MS) read(id).catch(() => undefined)
      return stored.answer
    },
    /** Forgets an account's credentials, so that a change made here is in force here at once. */
    forget(accountId: string): void {
      pending = new Map()
      for (const [id, { answer }] of answers) {
        if (answer.accepted && answer.credential.accountId === accountId) answers.delete(id)
      }
    },
  }
}

/** A root and its children, its lineage, and the account's tier; `kind` is that of credentials. */
const SELECT = `SELECT encode(k.hash, 'hex') AS hash, 'key' AS kind, k.id AS "keyId", k.account_id AS "accountId", a.tier,
    k.kind = 'root' AS "isRootKey", k.root_key_id AS "rootKeyId", coalesce(k.lineage_id, k.id) AS "lineageId",
    k.quota_requests_per_month_override, k.rate_requests_per_minute_override, k.scopes,
    k.revoked_at IS NOT NULL OR r.revoked_at IS NOT NULL AS "isRevoked",
    LEAST(k.expires_at, r.expires_at) <= now() AS "isExpired", a.disabled_at IS NOT NULL AS "isDisabled"
  FROM api_keys k JOIN api_keys r ON r.id = k.root_key_id JOIN accounts a ON a.id = k.account_id
  WHERE k.hash IN (SELECT decode(h, 'hex') FROM unnest($1::text[]) AS h)`

type KeyRow = Credential & { hash: string; isRevoked: boolean; isExpired: boolean | null; isDisabled: boolean }

const refusal = (code: RefusalCode, detail: string): KeyAnswer => ({ accepted: false, code, detail })

const MALFORMED = refusal('AUTH_INVALID_API_KEY', 'Send your API key as `Authorization: Bearer <API_KEY>`.')
const UNKNOWN = refusal('AUTH_INVALID_API_KEY', 'This API key is not known.')

export type KeyDirectory = ReturnType<typeof openKeyDirectory>

/** Opens the directory; `now` is a monotonic clock in milliseconds. */
export function openKeyDirectory(database: Database, now?: () => number) {
  const query = async (hashes: readonly string[]) =>
    new Map((await database.rows<KeyRow>(SELECT, [hashes])).map(row => [row.hash, answerOf(row)]))
  const { answerOn, forget } = openFreshAnswers(query, UNKNOWN, now)
  return {
    authenticate(authorization: string | undefined): KeyAnswer | Promise<KeyAnswer> {
      const key = bearerOf(authorization)
      return key === undefined ? MALFORMED : answerOn(hashOfKey(key))
    },
    /** Authenticates again, by its hash, a key that was accepted before; never by what a client sent. */
    authenticateHash: answerOn,
    forget,
  }
}

function answerOf({ hash: _, isRevoked, isExpired, isDisabled, ...credential }: KeyRow): KeyAnswer {
  if (isRevoked) return refusal('AUTH_API_KEY_REVOKED', 'This API key was revoked; use the key that replaced it.')
  if (isExpired) return refusal('AUTH_INVALID_API_KEY', 'This API key has expired.')
  if (isDisabled) return refusal('AUTH_ACCOUNT_DISABLED', 'The account of this API key is disabled.')
  return { accepted: true, credential }
}

/** Root keys manage children; child keys only read data. */
export type KeyKind = 'root' | 'child'

const KEY_FORM = /^(?i:bearer) (sk_live_(?:root|child)_[A-Za-z0-9_-]{43})$/
const SESSION_FORM = /^bearer ([\w-]+\.[\w-]+\.[\w-]+)$/i

/** The key's text of an Authorization header that has the form of one. */
export const bearerOf = (authorization = ''): string | undefined => KEY_FORM.exec(authorization)?.[1]

/** SHA-256 of a key's text, as 64 hexadecimal digits. */
export const hashOfKey = (text: string): string => hash('sha256', text, 'hex')

/** Authenticates by API keys, and by session tokens on routes that accept them where sign-in is configured; keys have no dots. */
export const openAuthenticate =
  (
    keys: Pick<KeyDirectory, 'authenticate'>,
    sessions: { authenticate(token: string, countFirst: CountFirst): KeyAnswer | Promise<KeyAnswer> } | undefined,
  ) =>
  (
    { headers: { authorization = '' } }: { headers: { authorization?: string } },
    access: Access,
    countFirst: CountFirst,
  ) => {
    const isSessionRoute = access === 'account' || access === 'management' || access === 'recent-session'
    const token = isSessionRoute ? SESSION_FORM.exec(authorization)?.[1] : undefined
    return token === undefined || !sessions
      ? keys.authenticate(authorization)
      : sessions.authenticate(token, countFirst)
  }
