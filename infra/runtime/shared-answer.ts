/**
 * One answer for all who ask while it is under way, and for some time after it came, 0 when left out. A failure is not kept.
 */
export function openSharedAnswer<T>(ask: () => Promise<T>, forMs = 0): { get(): Promise<T>; forget(): void } {
  let known: { answer: Promise<T>; until: number } | undefined
  return {
    get() {
      if (known !== undefined && performance.now() < known.until) return known.answer
      const own = { answer: ask(), until: Number.POSITIVE_INFINITY }
      known = own
      own.answer.then(
        () => {
          own.until = performance.now() + forMs
        },
        () => {
          if (known === own) known = undefined
        },
      )
      return own.answer
    },
    forget() {
      known = undefined
    },
  }
}
