/**
 * Hands one loaded market from benchmark to benchmark, as long as it is as it was loaded.
 *
 * States: none, or one that is kept. A benchmark that changes the market, and one that failed, leave none, so the
 * next loads its own. Invariant: a benchmark gets a market that was just loaded, or one that only benchmarks used that
 * leave it as it was; either way at rest, so that its figures do not depend on what ran before.
 */

/** What is kept: comes to rest between benchmarks, and is closed at the end. */
export interface Keepable {
  /** Ends what the last benchmark has left running. */
  comeToRest(): Promise<void>
  close(): Promise<void>
}

/** Keeps a market for the benchmarks of a run. */
export interface StageKeeper<S extends Keepable> {
  /** The market at rest; one that was just loaded where `isOwn`. */
  handOut(isOwn: boolean): Promise<S>
  /** Closes what is kept; what is handed out next is loaded. */
  drop(): Promise<void>
}

/** Keeps what `open` makes. */
export function keepStage<S extends Keepable>(open: () => Promise<S>): StageKeeper<S> {
  let kept: Promise<S> | undefined
  const drop = async (): Promise<void> => {
    // One that could not be opened has closed itself.
    const stage = await kept?.catch(() => undefined)
    kept = undefined
    await stage?.close()
  }
  return {
    drop,
    async handOut(isOwn) {
      if (isOwn) await drop()
      kept ??= open()
      const stage = await kept
      await stage.comeToRest()
      return stage
    },
  }
}
