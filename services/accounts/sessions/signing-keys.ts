/**
 * The keys that sign session tokens: drawn, stored, rotated, published.
 *
 * Reads and writes signing_keys. States of a key: signing (until retires_at) -> published (until expires_at) -> gone.
 * Processes that need a new key hold an advisory lock, so there is one signing key at a time but for a race with the
 * clock; private parts are sealed, and one that cannot be opened (another MARKETLOG_SECRET_KEY) is skipped.
 * A token outlives its key's retirement by its own life, and the key is published for longer than that.
 */
import type { Database, Query } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { newSigningKey, type SigningKey } from '#infra/sign-in/session-token.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'

/** A public key in JSON Web Key form (RFC 7517). */
export type PublicKey = SigningKey['publicKey']

/** The keys of a platform. */
export interface SigningKeys {
  /** The key that signs at `now` (milliseconds since the epoch). */
  current(now: number): Promise<SigningKey>
  /** The public part of a published key. */
  publicKeyOf(id: string, now: number): Promise<PublicKey | undefined>
  /** All published keys, newest first. */
  published(now: number): Promise<PublicKey[]>
}

const SIGNS_MS = DAY_MS
const PUBLISHED_AFTER_MS = HOUR_MS
/** Any client may name any key: Postgres is asked for unknown ones no more often than this. */
const RELOAD_MS = 1_000
/** Name of the advisory lock; its seed keeps it apart from those of other rooms. */
const LOCK = 'signing keys'
const LOCK_SEED = 2

interface KeyRow {
  id: string
  public_key: PublicKey
  sealed_private_key: string
  retires_at: Date
}

const SIGNING = `SELECT id, public_key, sealed_private_key, retires_at FROM signing_keys WHERE retires_at > $1
  ORDER BY created_at DESC`

/** Opens the keys of a database. */
export function openSigningKeys(database: Database, box: SealedBox): SigningKeys {
  let signing: { key: SigningKey; retiresAt: number } | undefined
  let known = new Map<string, PublicKey>()
  let loadedAt = Number.NEGATIVE_INFINITY
  let loading: Promise<unknown> | undefined
  const sealContextOf = (id: string): string => `signing_keys/${id}`

  const readSigning = async (query: Query, now: number): Promise<typeof signing> => {
    for (const row of await query<KeyRow>(SIGNING, [new Date(now)])) {
      const privateKey = opened(box, row.sealed_private_key, sealContextOf(row.id))
      if (privateKey) {
        const key = { id: row.id, publicKey: row.public_key, privateKey }
        return { key, retiresAt: row.retires_at.getTime() }
      }
    }
    return undefined
  }
  const rotate = (now: number): Promise<NonNullable<typeof signing>> =>
    database.transaction(async query => {
      await query('SELECT pg_advisory_xact_lock(hashtextextended($1, $2))', [LOCK, LOCK_SEED])
      const found = await readSigning(query, now)
      if (found) return found
      const key = await newSigningKey()
      const sealed = box.seal(JSON.stringify(key.privateKey), sealContextOf(key.id))
      const retiresAt = now + SIGNS_MS
      await query('DELETE FROM signing_keys WHERE expires_at < $1', [new Date(now)])
      await query(
        `INSERT INTO signing_keys (id, public_key, sealed_private_key, created_at, retires_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6)`,
        [
          ...[key.id, JSON.stringify(key.publicKey), sealed, new Date(now), new Date(retiresAt)],
          new Date(retiresAt + PUBLISHED_AFTER_MS),
        ],
      )
      return { key, retiresAt }
    })
  const published = async (now: number): Promise<PublicKey[]> => {
    const rows = await database.rows<KeyRow>(
      'SELECT id, public_key FROM signing_keys WHERE expires_at > $1 ORDER BY created_at DESC',
      [new Date(now)],
    )
    known = new Map(rows.map(row => [row.id, row.public_key]))
    loadedAt = now
    return [...known.values()]
  }

  return {
    published,
    async current(now) {
      if (!signing || signing.retiresAt <= now) signing = (await readSigning(database.rows, now)) ?? (await rotate(now))
      return signing.key
    },
    async publicKeyOf(id, now) {
      // It may be younger than the loaded set, which is not loaded again yet.
      if (signing?.key.id === id) return signing.key.publicKey
      if (!known.has(id) && Math.abs(now - loadedAt) >= RELOAD_MS) {
        loading ??= published(now).finally(() => {
          loading = undefined
        })
        await loading
      }
      return known.get(id)
    },
  }
}

function opened(box: SealedBox, sealed: string, context: string): SigningKey['privateKey'] | undefined {
  try {
    return JSON.parse(box.open(sealed, context))
  } catch {
    return undefined
  }
}
