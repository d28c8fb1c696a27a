/**
 * Makes `alert-triggers` read its state from the log again.
 *
 * The state - best prices of every item, rules that wait - is in the role alone, which reads it whenever a partition opens. So
 * its members are removed from their group, as the group itself does after a session timeout, and each joins again. Invariant: an
 * alert that fires meanwhile fires once, since a trigger names the version of its rule.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { withAdmin } from '#infra/kafka/admin.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { evictMembers } from '#infra/kafka/membership.ts'
import type { RebuildTask } from '#streams/runner/view.ts'

const GROUP = 'alert-triggers'
const REJOIN_LIMIT_MS = 60_000
const POLL_MS = 250

/** Rejects when the role does not run; resolves with the number of processes that have joined again. */
export async function rebuildAlerts({ config, log, onProgress, signal }: RebuildTask): Promise<{ members: number }> {
  const kafka = connectKafka({ config, role: 'rebuild', log })
  const groupId = kafka.groupName(GROUP)
  return withAdmin(kafka, async admin => {
    const membersNow = async (): Promise<{ ids: string[]; isStable: boolean }> => {
      const { groups } = await admin.describeGroups([groupId])
      return {
        ids: (groups[0]?.members ?? []).map(({ memberId }) => memberId),
        isStable: groups[0]?.state === 'Stable',
      }
    }
    const { ids } = await membersNow()
    if (ids.length === 0) throw new Error(`${GROUP} does not run; it reads its state when it starts`)
    onProgress('taking the role out of its group')
    const [failure] = await evictMembers(kafka, groupId, ids)
    if (failure !== undefined) throw failure
    onProgress('waiting until it has joined again')
    for (const until = performance.now() + REJOIN_LIMIT_MS; ; await pause(POLL_MS, undefined, { signal })) {
      const now = await membersNow()
      if (now.isStable && now.ids.length > 0 && !now.ids.some(id => ids.includes(id)))
        return { members: now.ids.length }
      if (performance.now() > until) throw new Error(`${GROUP} has not joined again within ${REJOIN_LIMIT_MS / 1000} s`)
    }
  })
}
