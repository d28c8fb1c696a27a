/**
 * Decodes a record; fetches the schema of its writer when its id is new.
 *
 * Invariant: an id that the registry does not know makes a record unreadable; a registry that does not answer is a lost
 * dependency, and the record may be readable; an event of a newer version is an UnknownEvent, which is a DecodeError too.
 */
import { type Codec, type Decoded, DecodeError, UnknownWriter } from './codec.ts'

/**
 * Decodes a record of a writer that is known; undefined when its schema has to be fetched first. Throws DecodeError.
 *
 * For many records one after the other, where a promise each would cost as much as the record.
 */
export function decodeKnown(codec: Codec, buffer: Buffer): Decoded | undefined {
  try {
    return codec.decode(buffer)
  } catch (error) {
    if (error instanceof UnknownWriter) return undefined
    throw error
  }
}

/** Decodes a record; throws DecodeError when it is no event of ours. */
export async function decodeLearning(codec: Codec, buffer: Buffer): Promise<Decoded> {
  try {
    return codec.decode(buffer)
  } catch (error) {
    if (!(error instanceof UnknownWriter)) throw error
    if (!(await codec.learn(error.id))) throw new DecodeError(`schema id ${error.id} is unknown`)
    return codec.decode(buffer)
  }
}
