/**
 * Keeps the manifest of each partition equal to its live table, a second or so behind it.
 *
 * A build reads all rows of every provider that was touched since the last manifest while no flush of its partition
 * runs, makes their segments while flushes go on, and publishes them together: a manifest is the table at one moment.
 * A build waits until nothing was touched for a moment, since builds and a backlog want the same CPU, but not for ever; one at a time
 * runs in this process, and none while readers of the table are refused. What is out of date is known from the notes of the flushes,
 * so a restart builds no more than it must. Invariant: a build that fails leaves the manifest before it, and is tried again;
 * a flush never waits for more than a build's read and publication.
 */
import { createHash } from 'node:crypto'
import PQueue from 'p-queue'
import { marketplaceUrl, type Provider, type ProviderRegistry } from '#infra/config/providers.ts'
import type { KeyWrite } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type EntryText, openEntryText } from '#schemas/api/entry-text.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { formatOf } from '#schemas/values/stored-format.ts'
import type { FlushCompanion, OwnedHead } from '#streams/runner/view.ts'
import { makeSegment, readRowPages } from './segment.ts'
import { type KnownManifest, openSnapshotStore, type SnapshotStore } from './snapshot-store.ts'
import {
  type LiveHead,
  readTouchedField,
  SNAPSHOT_FORMAT,
  type SnapshotManifest,
  touchedField,
  touchedKey,
} from './table.ts'

export interface SnapshotOptions {
  redis: Redis
  registry: ProviderRegistry
  catalog: Promise<CatalogReader>
  /** Public root of the API, with which the link of each price begins. */
  baseUrl: string
  log: Log
  metrics: Metrics
  pace?: BuildPace
}

/** How soon a build follows what was touched, in milliseconds. */
export interface BuildPace {
  /** A build waits until nothing was touched for so long… */
  quietMs: number
  /** …but not for longer than this. */
  longestWaitMs: number
}

/** Soon enough for readers of a snapshot after a refresh, and seldom enough for a backlog. */
const BUILD_PACE: BuildPace = { quietMs: 1_000, longestWaitMs: 5_000 }

/** Changes when the text of a line does. */
const LINE_FORM = 1

interface Shared extends SnapshotOptions {
  pace: BuildPace
  texts: Promise<Record<Side, EntryText<Provider>>>
  form: string
  /** Side and provider of everything that may be listed. */
  fields: readonly string[]
  builds: PQueue
  buildSeconds: ReturnType<Metrics['histogram']>
}

/** Opens a builder; flushes of a partition that it has opened are carried out while nothing of the partition is read or published. */
export function openSnapshotBuilder(options: SnapshotOptions) {
  const { registry, catalog, baseUrl, metrics } = options
  const buildSeconds = metrics.histogram('marketlog_snapshot_build_seconds', 'Time from rows to a published manifest.')
  const texts = catalog.then(({ byId }) => {
    const sources = { itemOf: byId, providerOf: (key: string) => registry.byKey.get(key), marketplaceUrl, baseUrl }
    return { ask: openEntryText<Provider>('ask', sources), bid: openEntryText<Provider>('bid', sources) }
  })
  // Builds await it and get its error; before the first one it has no other handler.
  texts.catch(() => undefined)
  const shared: Shared = {
    ...options,
    texts,
    buildSeconds,
    form: formOf(registry, baseUrl),
    builds: new PQueue({ concurrency: 1 }),
    pace: options.pace ?? BUILD_PACE,
    fields: [
      ...registry.askKeys.map(key => touchedField('ask', key)),
      ...registry.bidKeys.map(key => touchedField('bid', key)),
    ],
  }
  return (table: { partition: number; prefix: string }, written: OwnedHead) => openPartition(shared, table, written)
}

/** A hash of all that a line is made of besides its row and what the catalog never changes. */
function formOf({ all }: ProviderRegistry, baseUrl: string): string {
  const providers = all.map(({ key, link_template, hosts }) => [key, link_template, hosts])
  return createHash('sha256')
    .update(JSON.stringify([LINE_FORM, baseUrl, providers]))
    .digest('base64url')
}

interface StaleRows {
  head: LiveHead
  base: SnapshotManifest
  pages: ReadonlyMap<string, readonly string[]>
}

function openPartition(shared: Shared, table: { partition: number; prefix: string }, found: OwnedHead): FlushCompanion {
  const store = openSnapshotStore(shared.redis, table)
  const serial = new PQueue({ concurrency: 1 })
  let written = found as OwnedHead<LiveHead>
  let known: KnownManifest | undefined
  /** Fields that the known manifest shows out of date; undefined: to be read from the notes of the flushes. */
  let stale: Set<string> | undefined
  let isOver = false

  async function readStale(): Promise<StaleRows | undefined> {
    // A snapshot of a table that lacks records would be older than what its readers have had.
    if (written.head.until !== undefined) return undefined
    if (stale === undefined) {
      const stored = await store.read()
      // Another owner has written: its builder goes on, and this one's next flush is fenced.
      if (stored.head !== written.text) isOver = true
      known = stored.manifest
      const base = baseOf(shared, known, written.head)
      const touched = [...stored.touched].filter(([, touchedAt]) => touchedAt > base.next)
      // All that there is, where the manifest is of another table or form.
      stale = new Set(base === known?.manifest ? touched.map(([field]) => field) : shared.fields)
    }
    if (isOver || stale.size === 0) return undefined
    const { head } = written
    const pages = await readRowPages(shared.redis, { ...table, version: head.version }, stale)
    stale = new Set()
    return { head, base: baseOf(shared, known, head), pages }
  }

  async function build(): Promise<void> {
    const texts = await shared.texts
    const rows = await serial.add(readStale)
    if (!rows) return
    const end = shared.buildSeconds.startTimer()
    const manifest = await makeManifest(store, texts, rows)
    known = await serial.add(async () => (isOver ? undefined : store.publish(manifest, known, written.text)))
    if (known) end()
    else stale = undefined
  }

  const schedule = openBuildSchedule(shared, async () => {
    try {
      await build()
    } catch (error) {
      stale = undefined
      if (!isOver)
        shared.log.warn({ error, partition: table.partition }, 'a snapshot could not be built; it is tried again')
    }
    return !isOver && stale?.size !== 0
  })
  schedule.due()
  return {
    async flush(write, { touched, next }) {
      await serial.add(async () => {
        written = (await write(noteTouched(table, touched, next))) as OwnedHead<LiveHead>
        for (const field of touched) stale?.add(field)
      })
      if (touched.length > 0) schedule.due()
    },
    async close() {
      isOver = true
      await schedule.stop()
    },
  }
}

/** The known manifest, or an empty one where that is of another table or form. */
function baseOf({ form }: Shared, known: KnownManifest | undefined, { version, next }: LiveHead): SnapshotManifest {
  const manifest = known?.manifest
  const isCurrent =
    manifest?.tableVersion === version && manifest.form === form && formatOf(manifest) === SNAPSHOT_FORMAT
  return isCurrent ? manifest : { format: SNAPSHOT_FORMAT, tableVersion: version, next, form, ask: {}, bid: {} }
}

async function makeManifest(
  store: SnapshotStore,
  texts: Record<Side, EntryText<Provider>>,
  { head, base, pages }: StaleRows,
): Promise<SnapshotManifest> {
  const manifest = { ...base, next: head.next, ask: { ...base.ask }, bid: { ...base.bid } }
  const version = await store.nextVersion()
  for (const [field, rows] of pages) {
    const { side, provider } = readTouchedField(field)
    const source = { text: texts[side], provider, refreshedAt: head[side][provider] ?? 0 }
    const { entry, bytes } = await makeSegment(source, rows)
    if (bytes.length > 0) {
      await store.storeSegment(side, provider, version, bytes)
      manifest[side][provider] = { version, ...entry }
    } else delete manifest[side][provider]
  }
  return manifest
}

/**
 * The write that notes what a flush touches, in the same atomic write: a provider whose note is not above a manifest's `next` is in that
 * manifest as the table shows it.
 */
function noteTouched(
  { partition, prefix }: { partition: number; prefix: string },
  fields: readonly string[],
  next: number,
): KeyWrite[] {
  if (fields.length === 0) return []
  return [{ command: 'HSET', key: touchedKey(partition, prefix), args: fields.flatMap(field => [field, String(next)]) }]
}

/** Runs builds of a partition: what was touched is followed by the end of a build that began later, or by a stop. */
function openBuildSchedule({ builds, pace: { quietMs, longestWaitMs } }: Shared, build: () => Promise<boolean>) {
  let timer: NodeJS.Timeout | undefined
  let dueSince: number | undefined
  let running: Promise<void> | undefined
  let isStopped = false
  const run = async (): Promise<void> => {
    if (isStopped) return
    dueSince = undefined
    if (await build()) dueSince ??= performance.now()
  }
  const start = (): void => {
    running = builds.add(run).finally(() => {
      running = undefined
      if (dueSince !== undefined) due()
    })
  }
  const due = (): void => {
    const now = performance.now()
    dueSince ??= now
    if (isStopped || running !== undefined) return
    clearTimeout(timer)
    timer = setTimeout(start, Math.max(0, Math.min(quietMs, dueSince + longestWaitMs - now)))
  }
  return {
    due,
    async stop() {
      isStopped = true
      clearTimeout(timer)
      await running
    },
  }
}
