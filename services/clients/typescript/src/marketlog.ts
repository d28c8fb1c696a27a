import { MarketlogConnectionError } from './errors.ts'
import { type FeedOptions, type Feeds, openFeeds } from './feed.ts'
import { type Lines, OPERATIONS, Operations, type Parameters, ROWS, type Rows } from './generated.ts'
import { type LiveBook, type LiveBookParameters, openLiveBook } from './live-book.ts'
import type { CallOptions, Operation } from './operation.ts'
import { type MarketlogOptions, openTransport, type Transport } from './transport.ts'

export { toDecimal } from './decimal.ts'
export { FeedGapError, MarketlogConnectionError, MarketlogError, type Violations } from './errors.ts'
export type { FeedEvent, FeedOptions, FeedParameters, Feeds } from './feed.ts'
export type * from './generated.ts'
export type { Ask, LiveBook, LiveBookParameters } from './live-book.ts'
export type { CallOptions } from './operation.ts'
export type { MarketlogOptions } from './transport.ts'

/** The `pagination` of a page. */
interface Pagination {
  limit: number
  offset: number
  has_next: boolean
  next_cursor?: string | null
}

/** A platform: a method for each operation by its id, its feeds and what is made of them. */
export class Marketlog extends Operations {
  readonly feed: Feeds
  readonly #transport: Transport

  constructor(options: MarketlogOptions) {
    super()
    this.#transport = openTransport(options)
    this.feed = openFeeds(this.#transport)
  }

  protected override call(operation: Operation, parameters: object, options?: CallOptions): Promise<unknown> {
    return this.#transport.call(operation, parameters, options)
  }

  /** The rows of all pages from the one that the parameters name, each page when the rows before it were used. */
  async *pages<O extends keyof Rows>(
    operation: O,
    parameters: Parameters[O] = {} as Parameters[O],
    options?: CallOptions,
  ): AsyncGenerator<Rows[O], void, void> {
    for (let from: object = {}; ; ) {
      const reply = await this.call(OPERATIONS[operation], { ...parameters, ...from }, options)
      // biome-ignore lint/suspicious/noExplicitAny: the path is made of the same description as the types
      yield* ROWS[operation].reduce((inside: any, name) => inside[name], reply)
      const { limit, offset, has_next, next_cursor } = (reply as { pagination: Pagination }).pagination
      if (!has_next) return
      from = next_cursor ? { cursor: next_cursor } : { offset: offset + limit }
    }
  }

  /** The rows of a bulk snapshot as they arrive; one that breaks off throws. */
  async *snapshot<O extends keyof Lines>(
    operation: O,
    parameters: Parameters[O] = {} as Parameters[O],
    options?: CallOptions,
  ): AsyncGenerator<Lines[O], void, void> {
    let rest = ''
    for await (const chunk of await this.#transport.open(OPERATIONS[operation], parameters, options)) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) yield JSON.parse(line)
    }
    if (rest !== '') throw new MarketlogConnectionError('the snapshot ended within a line')
  }

  /** The asks of some items, or of all, always as they are now. */
  liveBook(parameters: LiveBookParameters = {}, options?: FeedOptions): Promise<LiveBook> {
    return openLiveBook(this.feed.prices, parameters, options)
  }
}
