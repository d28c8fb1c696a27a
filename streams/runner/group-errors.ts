/**
 * Tells the errors that mean "join the group again" from all others.
 *
 * The client rejoins by itself when such an error reaches it, so the runners pass them on; by code,
 * never by message text.
 */
const GROUP_ERRORS = new Set(['REBALANCE_IN_PROGRESS', 'UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'NOT_COORDINATOR'])

/** Whether the group, not the work, is the trouble. */
export function isGroupError(error: unknown): boolean {
  const { type, cause } = error as { type?: string; cause?: { type?: string } }
  return GROUP_ERRORS.has(type ?? '') || GROUP_ERRORS.has(cause?.type ?? '')
}

/** For work that a rebalance may make pointless. */
export function rethrowUnlessGroupError(error: unknown): void {
  if (!isGroupError(error)) throw error
}
