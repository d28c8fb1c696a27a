/**
 * Recognizes the errors that mean "join the group again".
 *
 * The client joins again by itself when such an error reaches it bare; inside the wrapper that its retries put
 * around it, it ends the consumer. So the runners unwrap them; by code, never by message text.
 */
const GROUP_ERRORS = new Set([
  'REBALANCE_IN_PROGRESS',
  'UNKNOWN_MEMBER_ID',
  'ILLEGAL_GENERATION',
  'NOT_COORDINATOR_FOR_GROUP',
])

/** The error of the group in what was thrown, itself or its cause; undefined when the work failed. */
export function groupErrorIn(error: unknown): unknown {
  const { type, cause } = error as { type?: string; cause?: { type?: string } }
  if (GROUP_ERRORS.has(type ?? '')) return error
  return GROUP_ERRORS.has(cause?.type ?? '') ? cause : undefined
}

/** For work that a rebalance may make pointless. */
export function rethrowUnlessGroupError(error: unknown): void {
  if (groupErrorIn(error) === undefined) throw error
}
