/** How a call is made, and how long it may take. */
export interface CallOptions {
  signal?: AbortSignal
  /** Of one attempt, until its reply is there; of a stream, until it begins. */
  timeoutMs?: number
  /** Attempts after the first, at most. */
  retries?: number
  /** From the start of the call to the start of its last attempt, at most. */
  retryWithinMs?: number
}

export interface Operation {
  method: string
  /** With `{name}` for parameters. */
  path: string
  /** Where parameters that are in neither path nor headers go; in the query where there is none. */
  body?: string
  headers?: string[]
  reply: string
  /** Takes no key. */
  isPublic?: boolean
  /** Sent twice it does no more than once. */
  isRepeatable?: boolean
}
