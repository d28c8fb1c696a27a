/**
 * Amounts of stored records in the currency of an answer.
 *
 * All arithmetic is schemas/values/money.ts. A record in its own currency shows the price that its provider sent; in any
 * other its micro-dollars are converted at the given rate.
 */
import { type MicroUsd, type Minor, minorDigits, type Rate } from '#schemas/values/money.ts'

/** Micro-dollars as hundredths of a currency; beyond 2^53 the nearest number, as JSON's readers would have it. */
export const convertedAmount = (micro: MicroUsd, rate: Rate): number => Number(minorDigits(micro, rate))

/** A record's price in a currency; `rate` is only used when that is not its own. */
export function recordAmount(
  record: { price: Minor; currency: string; price_micro_usd: MicroUsd },
  currency: string,
  rate: () => Rate,
): number {
  return record.currency === currency ? record.price : convertedAmount(record.price_micro_usd, rate())
}
