/**
 * `marketlog reset`: has a processor that has stopped go on at the start of what its inputs hold now.
 *
 * Its rows stay, and what was under way is dropped: the next refresh of each provider puts right what differs. Changes nothing where
 * the processor has not stopped. A role that runs goes on by itself.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { topics } from '#schemas/topics.ts'
import { PROCESSORS } from '#streams/processors.ts'
import { resetPositions } from '#streams/runner/changelog-positions.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'
import { type Output, wantsTable, write, writeResults } from '../output.ts'

export async function reset(
  config: PlatformConfig,
  log: Log,
  name: string,
  output: Output,
  options: { json?: boolean },
): Promise<void> {
  const processor = PROCESSORS.find(({ group }) => group === name)
  if (processor === undefined) {
    const names = PROCESSORS.map(({ group }) => group).join(', ')
    throw new CommandFailure(`reset takes ${names}; a view is built again by \`marketlog rebuild\``, exitCodes.usage)
  }
  const kafka = connectKafka({ config, role: 'reset', log })
  const ids = openTopicIds(kafka)
  const reader = await openRangeReader(
    kafka,
    Object.values(topics).map(topic => `${kafka.namespace}${topic.name}`),
  )
  try {
    const changed = (await resetPositions({ kafka, reader, ids }, processor)).map(one => ({
      partition: `${topics[one.topic].name}-${one.partition}`,
      was: one.stored?.next ?? null,
      goes_on_at: one.log.start,
      fault: one.fault,
    }))
    const columns = [
      { head: 'partition', cell: ({ partition }: (typeof changed)[number]) => partition },
      { head: 'was', cell: ({ was }: (typeof changed)[number]) => was ?? '-' },
      { head: 'goes on at', cell: ({ goes_on_at }: (typeof changed)[number]) => goes_on_at },
      { head: 'why it had stopped', cell: ({ fault }: (typeof changed)[number]) => fault },
    ]
    if (changed.length === 0 && wantsTable(output, options))
      await write(output, `${name} has not stopped; nothing was changed\n`)
    else await writeResults(output, options, columns, changed)
  } finally {
    await reader.close()
    await ids.close()
  }
}
