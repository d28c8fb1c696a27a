/**
 * Joins the CRC-32 of two texts into that of both, without reading the texts.
 *
 * Source: zlib's crc32_combine. A CRC is the rest of a division by a polynomial over GF(2), so appending n
 * bytes multiplies the first rest by x^(8n) before the second is added. Polynomials are reflected: bit 31 is x^0.
 */

const POLYNOMIAL = 0xedb88320
const ONE = 0x80000000

/** x^(2^k) for k from 0 to 31; beyond, the powers repeat. */
const SQUARES = squares()

function squares(): Uint32Array {
  const powers = new Uint32Array(32)
  let power = 0x40000000
  for (let k = 0; k < powers.length; k++) {
    powers[k] = power
    power = multiply(power, power)
  }
  return powers
}

/** The product of two polynomials, reduced. */
function multiply(one: number, other: number): number {
  let product = 0
  let shifted = other
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if ((one & bit) !== 0) product ^= shifted
    shifted = (shifted & 1) === 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1
  }
  return product >>> 0
}

/** The CRC-32 of two texts in a row, from theirs and the second one's length in bytes. */
export function crc32Combine(first: number, second: number, secondLength: number): number {
  let power = ONE
  // Eight bits a byte: the powers begin at x^(2^3).
  for (let left = secondLength, k = 3; left > 0; left = Math.floor(left / 2), k++) {
    if (left % 2 === 1) power = multiply(SQUARES[k & 31] as number, power)
  }
  return (multiply(power, first) ^ second) >>> 0
}
