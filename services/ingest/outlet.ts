/**
 * Where ingest's records go, and how many portions of them may be on their way at once.
 *
 * All feeds of a process share one publisher, so what one feed prepares beyond the next send only
 * takes memory and the event loop's time: 60 feeds that are due together held everything up for
 * 0.7 s. Invariant: at most LANES portions exist in the process; feeds get their turns in the order in
 * which they asked.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'

/** Where refreshes go. */
export interface Outlet {
  codec: Codec
  publisher: Publisher
  /** Waits for a turn to prepare a portion; the caller calls what it gets once the portion is acknowledged or dropped. */
  enter(): Promise<() => void>
}

/** One on its way, one ready behind it, one being made. A feed holds two at most, so two is the least. */
const LANES = 3

/** Opens the outlet of a process. */
export function openOutlet(codec: Codec, publisher: Publisher): Outlet {
  const waiting: (() => void)[] = []
  let free = LANES
  const leave = (): void => {
    const next = waiting.shift()
    if (next) next()
    else free++
  }
  return {
    codec,
    publisher,
    async enter() {
      if (free > 0) free--
      else await new Promise<void>(resolve => waiting.push(resolve))
      let isInside = true
      return () => {
        if (isInside) leave()
        isInside = false
      }
    },
  }
}
