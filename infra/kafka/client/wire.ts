/**
 * Requests that the client lacks are written and read with these: its encoder and its decoder (cluster.ts sends them).
 *
 * The types declare what our requests use; the client's classes have more.
 */
import { loadInternal } from './internals.ts'

export interface WireEncoder {
  writeInt8(value: number): WireEncoder
  writeInt32(value: number): WireEncoder
  writeString(value: string): WireEncoder
  writeBoolean(value: boolean): WireEncoder
  writeArray(values: readonly WireEncoder[]): WireEncoder
  writeBuffer(value: Buffer): WireEncoder
  writeUVarInt(value: number): WireEncoder
  writeUVarIntString(value: string): WireEncoder
  writeUVarIntArray(values: readonly WireEncoder[]): WireEncoder
}

export interface WireDecoder {
  readInt8(): number
  readInt16(): number
  readInt32(): number
  readInt64(): { toString(): string }
  readString(): string
  readBoolean(): boolean
  readArray<T>(read: (decoder: WireDecoder) => T): T[]
  readBytes(length: number): Buffer
  readUVarIntString(): string | null
  readUVarIntArray<T>(read: (decoder: WireDecoder) => T): T[] | null
  readTaggedFields(): unknown
}

export interface Exchange {
  request: { apiVersion: number; encode(): Promise<WireEncoder> }
  response: { decode(bytes: Buffer): Promise<unknown>; parse(decoded: object): Promise<object> }
}

export interface ExchangingBroker {
  lookupRequest(apiKey: number, versions: object): (parameters: object) => Exchange
}

/** The same broker, with exchanges that are changed before they are sent. */
export const withExchanges = <B extends ExchangingBroker>(
  broker: B,
  change: (exchange: Exchange, parameters: object) => Exchange,
): B =>
  Object.create(broker, {
    lookupRequest: {
      value: (apiKey: number, versions: object) => {
        const make = broker.lookupRequest(apiKey, versions)
        return (parameters: object) => change(make(parameters), parameters)
      },
    },
  })

/** An exchange whose answer is given as it is; the client throws the first error in it, and with it all else. */
export const withErrors = ({ request, response: { decode } }: Exchange): Exchange => ({
  request,
  response: { decode, parse: async decoded => decoded },
})

export const Encoder = loadInternal('protocol/encoder') as new () => WireEncoder
export const Decoder = loadInternal('protocol/decoder') as new (bytes: Buffer) => WireDecoder
