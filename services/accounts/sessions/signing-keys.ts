/**
 * The keys that sign session tokens: drawn, stored, rotated, published.
 *
 * Reads and writes signing_keys. States of a key: signing (until retires_at) -> published (until expires_at) -> gone.
 * Processes that need a new key hold an advisory lock, so there is one signing key at a time but for a race with the
 * clock; private parts are sealed, and one that cannot be opened (another MARKETLOG_SECRET_KEY) is skipped.
 * A token outlives its key's retirement by its own life, and the key is published for longer than that.
 */
import { acquireAdvisoryLock, type Database, type Query } from '#infra/postgres/pool.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import { newSigningKey, type SigningKey } from '#infra/sign-in/session-token.ts'
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'

export type SigningKeys = ReturnType<typeof openSigningKeys>

const SIGNS_MS = DAY_MS
const PUBLISHED_AFTER_MS = HOUR_MS
/** Any client may name any key: Postgres is asked for unknown ones no more often than this. */
const RELOAD_MS = 1_000

const SIGNING = `SELECT id, public_key AS "publicKey", sealed_private_key AS sealed, retires_at AS "retiresAt"
  FROM signing_keys WHERE retires_at > $1 ORDER BY created_at DESC`

/** Opens the keys of a database; `now` is in milliseconds since the epoch. */
export function openSigningKeys(database: Database, box: SealedBox) {
  let signing: { key: SigningKey; retiresAt: number } | undefined
  let publicKeys = new Map<string, SigningKey['publicKey']>()
  let loadedAt = Number.NEGATIVE_INFINITY
  let loading: Promise<unknown> | undefined
  const sealContextOf = (id: string): string => `signing_keys/${id}`

  async function readSigning(query: Query, now: number): Promise<typeof signing> {
    type Row = Pick<SigningKey, 'id' | 'publicKey'> & { sealed: string; retiresAt: string }
    for (const { id, publicKey, sealed, retiresAt } of await query<Row>(SIGNING, [new Date(now)])) {
      try {
        const privateKey = JSON.parse(box.open(sealed, sealContextOf(id)))
        return { key: { id, publicKey, privateKey }, retiresAt: Date.parse(retiresAt) }
      } catch {
        // Sealed with another secret.
      }
    }
    return undefined
  }
  async function draw(query: Query, now: number): Promise<NonNullable<typeof signing>> {
    const key = await newSigningKey()
    const sealed = box.seal(JSON.stringify(key.privateKey), sealContextOf(key.id))
    const retiresAt = now + SIGNS_MS
    await query('DELETE FROM signing_keys WHERE expires_at < $1', [new Date(now)])
    const moments = [now, retiresAt, retiresAt + PUBLISHED_AFTER_MS].map(at => new Date(at))
    await query(
      `INSERT INTO signing_keys (id, public_key, sealed_private_key, created_at, retires_at, expires_at)
       VALUES ($1, $2, $3, $4, $5, $6)`,
      [key.id, JSON.stringify(key.publicKey), sealed, ...moments],
    )
    return { key, retiresAt }
  }
  const rotate = (now: number) =>
    database.transaction(async query => {
      await acquireAdvisoryLock(query, 'signing keys')
      return (await readSigning(query, now)) ?? draw(query, now)
    })
  /** All published keys, newest first. */
  async function published(now: number): Promise<SigningKey['publicKey'][]> {
    const rows = await database.rows<Pick<SigningKey, 'id' | 'publicKey'>>(
      'SELECT id, public_key AS "publicKey" FROM signing_keys WHERE expires_at > $1 ORDER BY created_at DESC',
      [new Date(now)],
    )
    publicKeys = new Map(rows.map(({ id, publicKey }) => [id, publicKey]))
    loadedAt = now
    return [...publicKeys.values()]
  }

  return {
    published,
    async current(now: number): Promise<SigningKey> {
      if (!signing || signing.retiresAt <= now) signing = (await readSigning(database.rows, now)) ?? (await rotate(now))
      return signing.key
    },
    /** The public part (RFC 7517) of a published key. */
    async publicKeyOf(id: string, now: number): Promise<SigningKey['publicKey'] | undefined> {
      // It may be younger than the loaded set, which is not loaded again yet.
      if (signing?.key.id === id) return signing.key.publicKey
      if (!publicKeys.has(id) && Math.abs(now - loadedAt) >= RELOAD_MS) {
        loading ??= published(now).finally(() => {
          loading = undefined
        })
        await loading
      }
      return publicKeys.get(id)
    },
  }
}
