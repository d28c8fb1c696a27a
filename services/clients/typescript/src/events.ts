import { createParser, type EventSourceMessage } from 'eventsource-parser'

/** The whole events of a stream; one that breaks off is none. */
export async function* eventsOf(
  chunks: AsyncIterable<string>,
  onRetry?: (ms: number) => void,
): AsyncGenerator<EventSourceMessage, void, void> {
  const events: EventSourceMessage[] = []
  const { feed } = createParser({ onEvent: event => events.push(event), ...(onRetry && { onRetry }) })
  for await (const chunk of chunks) {
    feed(chunk)
    yield* events.splice(0)
  }
}
