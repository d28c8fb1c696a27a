/**
 * Which member of a group gets which unit of work: each member keeps what it has, as far as the load stays even.
 *
 * Invariant: every unit that some member can run goes to exactly one that can; the same members give the same
 * answer, in any order; no member exceeds the even share by more than the heaviest unit.
 */

export interface MemberClaims {
  /** Unit → names of what the member would run in it. */
  runs: Readonly<Record<string, readonly string[]>>
  owned: readonly string[]
  /** The generation in which it was given them; of two that claim a unit, the later is right. */
  generation: number
}

export function assignUnits(members: ReadonlyMap<string, MemberClaims>): Map<string, string[]> {
  const ids = [...members.keys()].sort()
  const claims = (id: string): MemberClaims => members.get(id) as MemberClaims
  const weights = new Map<string, number>()
  for (const id of ids) {
    for (const [unit, names] of Object.entries(claims(id).runs))
      weights.set(unit, Math.max(weights.get(unit) ?? 0, names.length))
  }
  // The heaviest first, so that what comes last can even out.
  const units = [...weights.keys()].sort((a, b) => weightOf(b) - weightOf(a) || (a < b ? -1 : 1))
  const share = Math.ceil([...weights.values()].reduce((sum, weight) => sum + weight, 0) / Math.max(1, ids.length))
  const assignment = new Map<string, string[]>(ids.map(id => [id, []]))
  const loads = new Map<string, number>(ids.map(id => [id, 0]))
  const give = (unit: string, id: string): void => {
    assignment.get(id)?.push(unit)
    loads.set(id, loadOf(id) + weightOf(unit))
  }
  function weightOf(unit: string): number {
    return weights.get(unit) ?? 0
  }
  function loadOf(id: string): number {
    return loads.get(id) ?? 0
  }
  const free = units.filter(unit => {
    const owner = ownerOf(unit, ids, claims)
    // A move is worth it when most of the unit lies beyond the share.
    if (owner === undefined || loadOf(owner) + weightOf(unit) / 2 > share) return true
    give(unit, owner)
    return false
  })
  for (const unit of free) {
    const able = ids.filter(id => unit in claims(id).runs)
    const least = able.reduce((best, id) => (loadOf(id) < loadOf(best) ? id : best))
    give(unit, least)
  }
  return assignment
}

/** The member that runs a unit now, if it still can. */
function ownerOf(unit: string, ids: readonly string[], claims: (id: string) => MemberClaims): string | undefined {
  const claiming = ids.filter(id => claims(id).owned.includes(unit) && unit in claims(id).runs)
  const latest = Math.max(...claiming.map(id => claims(id).generation))
  return claiming.find(id => claims(id).generation === latest)
}
