import { expect } from 'chai'
import { type TopicDefinition, type TopicKey, topics } from '#schemas/topics.ts'
import { viewOf } from '#services/cli/log-tools/views.ts'
import { VIEWS } from '#streams/views.ts'

const readersOf = (key: TopicKey): readonly string[] => (topics[key] as TopicDefinition).readers

describe('views', () => {
  it('are named among the readers of every topic that their group reads', () => {
    const missing = VIEWS.flatMap(view =>
      view.topics.flatMap(key => (readersOf(key).includes(view.name) ? [] : [`${view.name} of ${key}`])),
    )
    expect(missing).to.deep.equal([])
  })

  it('that are computed of others name views, and read how far these are in a topic of theirs', () => {
    for (const { name, computedOf } of VIEWS) {
      for (const [source, topic] of Object.entries(computedOf ?? {})) {
        expect(VIEWS.find(view => view.name === source)?.topics, `${source} of ${name}`).to.include(topic)
        expect(readersOf(topic), `${name} of ${topic}`).to.include(name)
      }
    }
  })

  it('that are computed are neither rebuilt nor verified: what they are computed of is', () => {
    for (const name of ['movers', 'market-summary'])
      expect(() => viewOf(name)).to.throw(/is computed by its role.* of .*: rebuild and verify those/)
  })

  it('write the tables that name them, and have names of their own', () => {
    for (const { name, tables } of VIEWS)
      for (const { table } of tables) expect(table.writer, table.name).to.equal(name)
    const names = [
      ...VIEWS.flatMap(({ name, aliases = [], tables }) => [
        name,
        ...aliases,
        ...tables.map(({ table }) => table.name),
      ]),
    ]
    // The view of sales and its table share a name.
    expect(new Set(names).size).to.equal(names.length - 1)
  })

  it('carry over what expires when they are built again', () => {
    for (const { name, store, tables, topics: read } of VIEWS.filter(view => view.store === 'clickhouse')) {
      for (const { table, origins } of tables) {
        expect(origins, `${name} in ${store}: ${table.name}`).not.to.deep.equal([])
        expect(read).to.include.members(origins.map(({ topic }) => topic))
      }
    }
  })
})
