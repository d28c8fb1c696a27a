/**
 * `marketlog reset`: has a processor that has stopped go on at the start of what its inputs hold now.
 *
 * Its rows stay, and what was under way is dropped: the next refresh of each provider puts right what differs. Changes nothing where
 * the processor has not stopped. A role that runs goes on by itself.
 */
import { withLogAccess } from '#infra/kafka/log-access.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { PROCESSORS } from '#streams/processors.ts'
import { resetPositions } from '#streams/runner/changelog-positions.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import { type CommandContext, wantsTable, write, writeResults } from '../output.ts'

export async function reset(
  { config, log, output }: CommandContext,
  name: string,
  options: { json?: boolean },
): Promise<void> {
  const processor = PROCESSORS.find(({ group }) => group === name)
  if (processor === undefined) {
    const names = PROCESSORS.map(({ group }) => group).join(', ')
    throw new CommandFailure(`reset takes ${names}; a view is built again by \`marketlog rebuild\``, exitCodes.usage)
  }
  const positions = await withLogAccess(config, log, Object.keys(topics) as TopicKey[], ({ kafka, reader }) => {
    const ids = openTopicIds(kafka)
    return resetPositions({ kafka, reader, ids }, processor).finally(() => ids.close())
  })
  const partitions = positions.map(one => ({
    partition: `${topics[one.topic].name}-${one.partition}`,
    was: one.stored?.next ?? null,
    goes_on_at: one.log.start,
    fault: one.fault,
  }))
  if (partitions.length === 0 && wantsTable(output, options))
    return write(output, `${name} has not stopped; nothing was changed\n`)
  await writeResults(output, options, partitions, [
    { head: 'partition', cell: ({ partition }) => partition },
    { head: 'was', cell: ({ was }) => was ?? '-' },
    { head: 'goes on at', cell: ({ goes_on_at }) => goes_on_at },
    { head: 'why it had stopped', cell: ({ fault }) => fault },
  ])
}
