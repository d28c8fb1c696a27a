/**
 * kafkajs's queue of requests sets a timer every millisecond while nothing waits. Here it returns early.
 *
 * Timers are counted in test/integration/kafkajs.test.ts.
 */
import { loadInternal } from './internals.ts'

export function correctRequestTimer(): void {
  const { prototype } = loadInternal('network/requestQueue') as {
    prototype: { pending: unknown[]; throttledUntil: number; scheduleCheckPendingRequests(): void }
  }
  const schedule = prototype.scheduleCheckPendingRequests
  prototype.scheduleCheckPendingRequests = function () {
    if (this.pending.length === 0) return
    if (this.throttledUntil < 0) this.throttledUntil = Date.now()
    schedule.call(this)
  }
}
