/**
 * What a request that the client lacks is written and read with: its encoder, its decoder, and a connection that carries any.
 *
 * The types declare what our requests use; the client's classes have more.
 */
import { loadInternal } from './internals.ts'

/** Writes a request. */
export interface WireEncoder {
  writeInt8(value: number): WireEncoder
  writeInt32(value: number): WireEncoder
  writeString(value: string): WireEncoder
  writeBoolean(value: boolean): WireEncoder
  writeArray(values: readonly WireEncoder[]): WireEncoder
}

/** Reads an answer. */
export interface WireDecoder {
  readInt8(): number
  readInt16(): number
  readInt32(): number
  readInt64(): { toString(): string }
  readString(): string
  readBoolean(): boolean
  readArray<T>(read: (decoder: WireDecoder) => T): T[]
}

/** What of a broker's connection is used. */
export interface WireConnection {
  send<T>(exchange: { request: object; response: { decode: unknown; parse: (decoded: T) => T } }): Promise<T>
}

/** A request being written. */
export const Encoder = loadInternal('protocol/encoder') as new () => WireEncoder
/** An answer being read. */
export const Decoder = loadInternal('protocol/decoder') as new (bytes: Buffer) => WireDecoder
