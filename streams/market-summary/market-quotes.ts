/**
 * The whole market in memory: every provider's ask and bid of every item, as columns of numbers.
 *
 * Changed in place: follow-market.ts fills it from the book's changelog, then applies market.book-changes. A million and a half
 * quotes take 30 MB here and are walked in milliseconds; as objects they took ten times both. Invariant: a change is a whole value,
 * so applying any stretch of the log again leaves the quotes as they are once the stretch has ended.
 */
import type { BookChanged, RefreshMarked, Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import type { MicroUsd } from '#schemas/values/money.ts'

/** The quotes of one side. The quote of item slot `s` and provider `p` has the index `s * providers.length + p`. */
export interface QuoteSide {
  readonly providers: readonly string[]
  /** Zero where nothing is quoted; no quote costs nothing. */
  microUsd: Float64Array
  quantity: Int32Array
  /** When price or quantity last changed. */
  seenAt: Float64Array
  /** When a provider was last refreshed, by partition: at `partition * providers.length + p`. */
  readonly refreshedAt: Float64Array
}

const FIRST_SLOTS = 4_096

export class MarketQuotes {
  readonly sides: Readonly<Record<Side, QuoteSide>>
  readonly #slots = new Map<number, number>()
  readonly #numbers: Readonly<Record<Side, ReadonlyMap<string, number>>>
  #itemIds: number[] = []
  #partitions = new Uint8Array(FIRST_SLOTS)
  #inOrder: Uint32Array | undefined

  /** `keys` are all provider keys of each side; quotes of others are left out. */
  constructor(keys: Readonly<Record<Side, readonly string[]>>) {
    this.sides = { ask: emptySide(keys.ask), bid: emptySide(keys.bid) }
    this.#numbers = { ask: numbersOf(keys.ask), bid: numbersOf(keys.bid) }
  }

  get size(): number {
    return this.#itemIds.length
  }

  itemId(slot: number): number {
    return this.#itemIds[slot] as number
  }

  slotOf(itemId: number): number | undefined {
    return this.#slots.get(itemId)
  }

  partition(slot: number): number {
    return this.#partitions[slot] as number
  }

  /** All slots by ascending item id. */
  inOrder(): Uint32Array {
    this.#inOrder ??= Uint32Array.from(this.#itemIds.keys()).sort((a, b) => this.itemId(a) - this.itemId(b))
    return this.#inOrder
  }

  /** Sets a provider's quote of an item; undefined takes it out. */
  set(
    side: Side,
    provider: string,
    itemId: number,
    quote: { microUsd: MicroUsd; quantity: number; seenAt: Instant } | undefined,
  ): void {
    const number = this.#numbers[side].get(provider)
    if (number === undefined) return
    const slot = this.#slots.get(itemId) ?? this.#add(itemId)
    const columns = this.sides[side]
    const cell = slot * columns.providers.length + number
    columns.microUsd[cell] = quote?.microUsd ?? 0
    columns.quantity[cell] = quote?.quantity ?? 0
    columns.seenAt[cell] = quote?.seenAt ?? 0
  }

  refreshed(side: Side, provider: string, partition: number, at: Instant): void {
    const number = this.#numbers[side].get(provider)
    if (number === undefined) return
    const { refreshedAt, providers } = this.sides[side]
    const cell = partition * providers.length + number
    if (at > (refreshedAt[cell] as number)) refreshedAt[cell] = at
  }

  /** The sides of providers, but for those down, that have a whole refresh: its marker comes to every partition, behind its changes. */
  refreshedSides(down: ReadonlySet<string> = new Set()): string[] {
    const isWhole = ({ providers, refreshedAt }: QuoteSide, number: number): boolean =>
      refreshedAt.every((at, cell) => cell % providers.length !== number || at > 0)
    return Object.entries(this.sides).flatMap(([name, side]) =>
      side.providers.flatMap((key, number) => (!down.has(key) && isWhole(side, number) ? [`${name} ${key}`] : [])),
    )
  }

  change({ side, provider, item_id, price_micro_usd: microUsd, quantity, seen_at: seenAt }: BookChanged): void {
    this.set(side, provider, item_id, microUsd === null ? undefined : { microUsd, quantity, seenAt })
  }

  mark({ side, provider, last_updated }: RefreshMarked, partition: number): void {
    this.refreshed(side, provider, partition, last_updated)
  }

  #add(itemId: number): number {
    const slot = this.#itemIds.length
    this.#itemIds.push(itemId)
    this.#slots.set(itemId, slot)
    this.#inOrder = undefined
    if (slot >= this.#partitions.length) this.#grow()
    this.#partitions[slot] = partitionOfItem(itemId)
    return slot
  }

  #grow(): void {
    this.#partitions = grown(this.#partitions, new Uint8Array(this.#partitions.length * 2))
    for (const side of Object.values(this.sides)) {
      side.microUsd = grown(side.microUsd, new Float64Array(side.microUsd.length * 2))
      side.quantity = grown(side.quantity, new Int32Array(side.quantity.length * 2))
      side.seenAt = grown(side.seenAt, new Float64Array(side.seenAt.length * 2))
    }
  }
}

/** When the quote at a cell was last known to be listed: its change, or the provider's last refresh. */
export const updatedAt = (side: QuoteSide, cell: number, refreshCell: number): Instant =>
  Math.max(side.seenAt[cell] as number, side.refreshedAt[refreshCell] as number)

function emptySide(providers: readonly string[]): QuoteSide {
  const cells = FIRST_SLOTS * providers.length
  return {
    providers,
    microUsd: new Float64Array(cells),
    quantity: new Int32Array(cells),
    seenAt: new Float64Array(cells),
    refreshedAt: new Float64Array(ITEM_PARTITIONS * providers.length),
  }
}

const numbersOf = (keys: readonly string[]): ReadonlyMap<string, number> => new Map(keys.map((key, i) => [key, i]))

function grown<T extends Uint8Array | Int32Array | Float64Array>(from: T, to: T): T {
  to.set(from)
  return to
}
