/**
 * The simulated connector: a seeded market that derives from one recorded refresh.
 *
 * Reads the base file once per market; everything else is map.ts and sales.ts. It quotes for the time that the schedule names,
 * never for the clock's, so a run at any speed gives the same events; it keeps nothing between polls.
 */
import type { SimulatedOptions } from '#infra/config/market.ts'
import type { Rate } from '#schemas/values/money.ts'
import type { RateTable } from '../../fx/rate-table.ts'
import type { Connector, Refresh, SourceSettings } from '../../source.ts'
import { readRecorded } from '../recorded/client.ts'
import { type SimulatedBase, simulatedBase } from './base.ts'
import { simulatedProvider, simulatedQuotes } from './map.ts'
import { salesBetween } from './sales.ts'

export async function loadSimulatedBase(
  file: string,
  rates: RateTable,
  options: { seed: number; items?: number | undefined },
): Promise<SimulatedBase> {
  const recorded = await readRecorded(file, 'USD')
  if (recorded.kind === 'failed') throw new Error(`base refresh ${file}: ${recorded.reason}, ${recorded.detail}`)
  return simulatedBase(recorded, rates, options)
}

export function openSimulated(
  source: SourceSettings,
  options: SimulatedOptions,
  base: SimulatedBase,
  seed: number,
): Connector {
  const provider = simulatedProvider(source, options, seed)
  const refreshAt = (at: number, after: number, rates: RateTable): Refresh => {
    const rate = rates.rateOf(source.currency)
    const entriesAt = (inForce: Rate) =>
      source.side === 'sale'
        ? salesBetween(base, provider, { after, until: at }, inForce)
        : simulatedQuotes(base, provider, at, inForce)
    // Without a rate there is nothing to quote in; publishing says so (unknown_currency).
    return { kind: 'refresh', observedAt: at, currency: source.currency, entries: rate ? entriesAt(rate) : [] }
  }
  return {
    refreshAt,
    async *poll({ at, after, rates }) {
      yield refreshAt(at, after ?? at - source.intervalMs, rates)
    },
  }
}
