/**
 * Compares a view with the log: the view's own sinks write the log, up to the view's position, into a version that nobody reads, and
 * the rows of both are compared.
 *
 * It finds what was lost, doubled or changed in the store; whether the fold is right is the tests' to say. Rows that differ are folded on
 * and compared again, since rows are not read and written at one moment: what then still differs and has not moved is a difference, what
 * has moved is counted. Invariant: the version that is read is not touched.
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  type DifferentRows,
  type Filling,
  fillFromBase,
  openFilling,
  sweep,
  type Versions,
  withStore,
} from './build.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut } from './findings.ts'
import type { VerifyTask } from './view.ts'

const ROUNDS = 3
/** A role writes a batch and its position within about a second. */
const PAUSE_MS = 2_000

/** Compares all rows of a view; rejects where there is no version, or another one is built meanwhile. */
export async function verify(versions: Versions, { config, log, report }: VerifyTask): Promise<Findings> {
  const { signal } = new AbortController()
  return withStore(versions, { config, log, signal }, async (parts, store, within) => {
    const sources = await store.readSources(false)
    if (!sources.every(({ stored, hasRows }) => stored && hasRows))
      throw new Error(`${versions.view.name} has no version that could be compared`)
    const onProgress = (records: number): void => {
      within.throwIfAborted()
      report(`reading the log: ${records.toLocaleString('en')} records`)
    }
    await store.create(sources)
    const filling = await openFilling(parts, store, sources)
    try {
      await fillFromBase(filling, onProgress)
      await foldToView(filling, onProgress)
      let { findings, different } = await store.compare(filling, report)
      for (let round = 1; round < ROUNDS && different.size > 0; round++) {
        await pause(PAUSE_MS)
        await foldToView(filling, onProgress)
        different = leaveOutMoved(findings, different, (await store.compare(filling, report)).different)
      }
      for (const [name, { expected, found }] of different) compare(findings, name, expected, found)
      return findings
    } finally {
      await store.dropNew()
    }
  })
}

/** Folds the log on to where the view is. */
async function foldToView(filling: Filling, onProgress: (records: number) => void): Promise<void> {
  const positionOf = await filling.store.readPositions()
  for (const each of filling.sources.values()) {
    const { topicId, next } = positionOf(each.source) ?? each.position
    if (topicId !== each.log.topicId) throw new Error(`it reflects a topic ${each.source.topic} that was deleted`)
    each.stored = { topicId, next }
  }
  await sweep(filling, { endOf: async ({ stored, log }) => stored?.next ?? log.start, onProgress })
}

/** The rows that differ as they did before; those that agree by now are compared, those that differ otherwise are counted. */
function leaveOutMoved(findings: Findings, before: DifferentRows, again: DifferentRows): DifferentRows {
  const still: DifferentRows = new Map()
  for (const [name, { found }] of before) {
    const now = again.get(name)
    if (now === undefined) findings.compared += 1
    else if (now.found === found) still.set(name, now)
    else leaveOut(findings, CAME_MEANWHILE)
  }
  return still
}
