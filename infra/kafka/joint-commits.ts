/**
 * Commits offsets of several partitions in one request.
 *
 * A fetch brings a batch of every partition, and they end at almost the same moment: committed one by one they were half
 * of the requests of live-view and alert-triggers. Nothing waits for a timer: what ends while a request is under
 * way goes into the next. Invariant: a commit resolves when an answer to a request that held it, or a later offset of its
 * partition, has come; it fails with that request.
 */

/** An offset to commit. */
export interface OffsetToCommit {
  topic: string
  partition: number
  offset: string
  /** Kept beside the offset for those who read it. */
  metadata?: string
}

/** Opens the commits of a group; `send` carries out one request. */
export function openJointCommits(
  send: (offsets: OffsetToCommit[]) => Promise<void>,
): (offset: OffsetToCommit) => Promise<void> {
  let underWay: Promise<void> = Promise.resolve()
  let waiting: { offsets: Map<string, OffsetToCommit>; sent: Promise<void> } | undefined
  return offset => {
    if (!waiting) {
      const offsets = new Map<string, OffsetToCommit>()
      const sent = underWay.then(() => {
        waiting = undefined
        return send([...offsets.values()])
      })
      waiting = { offsets, sent }
      underWay = sent.catch(() => undefined)
    }
    waiting.offsets.set(`${offset.topic}/${offset.partition}`, offset)
    return waiting.sent
  }
}
