/**
 * Where a feed's records go, and how many portions of them may be on their way at once.
 *
 * What one feed prepares beyond what is being sent only takes memory and the event loop's time: 60 feeds that are due
 * together held everything up for 0.7 s. Invariant: at most LANES portions exist in the process; feeds get their turns in
 * the order in which they asked.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'

/** Waits for a turn; the caller calls what it gets once it is done. */
export type Enter = () => Promise<() => void>

/** Where refreshes go. */
export interface Outlet {
  codec: Codec
  publisher: Pick<Publisher, 'send'>
  /** Waits for a turn to prepare a portion; the caller calls what it gets once the portion is acknowledged or dropped. */
  enter: Enter
}

/** One on its way, one ready behind it, one being made. A feed holds two at most, so two is the least. */
const LANES = 3

/** Opens an outlet; those of one process share their turns. */
export function openOutlet(codec: Codec, publisher: Pick<Publisher, 'send'>, enter = openTurns(LANES)): Outlet {
  return { codec, publisher, enter }
}

/** Lets as many in as there are lanes, the others in order. */
export function openTurns(lanes = LANES): Enter {
  const waiting: (() => void)[] = []
  let free = lanes
  const leave = (): void => {
    const next = waiting.shift()
    if (next) next()
    else free++
  }
  return async () => {
    if (free > 0) free--
    else await new Promise<void>(resolve => waiting.push(resolve))
    let isInside = true
    return () => {
      if (isInside) leave()
      isInside = false
    }
  }
}
