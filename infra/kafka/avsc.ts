/**
 * avsc with one fault corrected: it does not check how many items an array or a map of a damaged record claims to have.
 *
 * One changed byte made it build an array of a billion items, and a process that read the record ran out of memory, at each
 * start. No item of ours is without bytes, so a block of more items than bytes left is damage. The platform's codec loads
 * avsc from here.
 */
import avsc, { type Type } from 'avsc'

interface Tap {
  buf: Buffer
  pos: number
  readLong(): number
  skipLong(): number
  readString(): string
}

interface Reading {
  _read(tap: Tap): unknown
}

function blockItems(tap: Tap): number {
  let count = tap.readLong()
  if (count < 0) {
    count = -count
    tap.skipLong()
  }
  if (count > tap.buf.length - tap.pos) throw new Error(`${count} items in ${tap.buf.length - tap.pos} bytes`)
  return count
}

const { ArrayType, MapType } = avsc.types as unknown as Record<'ArrayType' | 'MapType', { prototype: Reading }>

ArrayType.prototype._read = function (this: { itemsType: Reading }, tap: Tap) {
  const items: unknown[] = []
  for (let count = blockItems(tap); count > 0; count = blockItems(tap)) {
    for (let left = count; left > 0; left--) items.push(this.itemsType._read(tap))
  }
  return items
}

MapType.prototype._read = function (this: { valuesType: Reading }, tap: Tap) {
  const values: Record<string, unknown> = {}
  for (let count = blockItems(tap); count > 0; count = blockItems(tap)) {
    for (let left = count; left > 0; left--) values[tap.readString()] = this.valuesType._read(tap)
  }
  return values
}

export { avsc, type Type }
