import type { ReactNode } from 'react'
import { Loading } from '../design/states.tsx'
import { leastTier, permits, type Tier, type TieredOperation } from '../values/tiers.ts'
import { useLink } from './market-context.tsx'

/** Null until an answer has named it. */
export const useTier = (): Tier | null => useLink(({ usage, state }) => usage?.tier ?? state.tier)

/** Shows its content to tiers that may ask for it, and to others what they lack. */
export function ForTier({ operation, of, children }: { operation: TieredOperation; of: string; children: ReactNode }) {
  const tier = useTier()
  if (tier === null) return <Loading of={of} />
  if (permits(tier, operation)) return children
  return (
    <p className="notice">
      The tier {tier} has no {of}: they begin with the tier {leastTier(operation)}.
    </p>
  )
}
