import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import formats from 'ajv-formats'
import { expect } from 'chai'
import { loadProviders } from '#infra/config/providers.ts'
import { asyncApiDocument } from '#schemas/api/asyncapi.ts'
import {
  changedEvent,
  readyEvent,
  recordedEvent,
  replayEndEvent,
  resyncEvent,
  snapshotEndEvent,
} from '#schemas/api/feed.ts'
import { feedOperations } from '#schemas/api/feed-operations.ts'
import type { Operation } from '#schemas/api/operation.ts'
import { allTopics } from '#schemas/topics.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import {
  changesFrames,
  type ItemsFrame,
  itemsFrames,
  openItemText,
  readyFrame,
  replayEndFrame,
  resyncFrame,
  rowOf,
  snapshotEndFrame,
} from '#services/feed/frames.ts'
import { saleChange } from '#test/fixtures/feed-logs.ts'
import { changed } from '#test/harness/published-records.ts'

const SCHEMA = new URL(import.meta.resolve('@asyncapi/specs/schemas/3.0.0-without-$id.json'))

// biome-ignore lint/suspicious/noExplicitAny: a document of any shape is looked into
const document: any = JSON.parse(JSON.stringify(asyncApiDocument({ baseUrl: 'https://api.example.com' })))

const validate = () => {
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: true })
  formats.default(ajv)
  return ajv.compile(JSON.parse(readFileSync(SCHEMA, 'utf8')))
}

describe('the description of feeds and topics', () => {
  it('is a document of AsyncAPI 3.0, and the check would notice one that is not', () => {
    const isValid = validate()
    expect(isValid(document), JSON.stringify(isValid.errors?.slice(0, 5))).to.equal(true)
    expect(isValid({ ...document, channels: { broken: { messages: [] } } })).to.equal(false)
    expect(isValid({ ...document, operations: { broken: { action: 'shout' } } })).to.equal(false)
  })

  it('names nothing that it does not hold', () => {
    const refs = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path ?? '')
    expect(refs.length).to.be.above(50)
    for (const path of refs) {
      // biome-ignore lint/suspicious/noExplicitAny: as above
      const found = path.split('/').reduce((at: any, name) => at?.[name], document)
      expect(found, path).to.be.an('object')
    }
  })

  it('lists every topic with its events as they are registered', () => {
    for (const { name, events, partitions } of allTopics) {
      const channel = document.channels[`topic.${name}`]
      expect(channel.bindings.kafka).to.include({ topic: name, partitions })
      expect(Object.keys(channel.messages)).to.deep.equal(events.map(event => event.name))
      for (const { name: event, avro } of events) {
        expect(document.components.messages[event].payload.schema).to.deep.equal(JSON.parse(JSON.stringify(avro)))
      }
    }
  })

  const streams: Operation[] = Object.values(feedOperations(loadProviders().askKeys))
  for (const { path, reply } of streams.filter(({ reply: { events } }) => events))
    it(`lists the events of ${path} that the description of the API names and shows`, () => {
      const events = reply.events ?? {}
      // biome-ignore lint/suspicious/noExplicitAny: as above
      const channel: any = Object.values(document.channels).find((one: any) => one.address === `/v1${path}`)
      expect(Object.keys(events).sort()).to.deep.equal(Object.keys(channel.messages).sort())
      const shown = Object.entries(reply.example ?? {})
      expect(shown.length).to.be.above(1)
      for (const [name, data] of shown) expect(events[name]?.schema.safeParse(data).success, name).to.equal(true)
    })

  const item = { item_id: 7, market_hash_name: '★ Knife "x"', phase: null } as CatalogItem
  const itemText = openItemText()
  const text = (change: 'added' | 'removed') =>
    itemText(item, rowOf(changed({ change, price_micro_usd: change === 'removed' ? null : 5_000 })))
  const changedFrame = (side: 'ask' | 'bid', ...texts: string[]) =>
    ([...itemsFrames({ side, provider: 'p', seenAt: 1_000 }, texts)][0] as ItemsFrame).bytes
  const [recorded] = changesFrames('sale', [saleChange(7)], { itemOf: () => item, itemText })
  const sent = [
    { frame: readyFrame({ providers: ['p'], itemIdsCount: 1, namesCount: 0 }), event: 'ready', schema: readyEvent },
    { frame: changedFrame('ask', text('added'), text('removed')), event: 'prices.changed', schema: changedEvent },
    { frame: changedFrame('bid', text('added')), event: 'bids.changed', schema: changedEvent },
    { frame: (recorded as ItemsFrame).bytes, event: 'sales.recorded', schema: recordedEvent },
    { frame: resyncFrame('expired'), event: 'resync', schema: resyncEvent },
    { frame: snapshotEndFrame(3), event: 'snapshot.end', schema: snapshotEndEvent },
    { frame: replayEndFrame(0), event: 'replay.end', schema: replayEndEvent },
  ]
  for (const { frame, event, schema } of sent)
    it(`describes ${event} as it is sent`, () => {
      const [, name, data = ''] = /^event: (.+)\ndata: (.+)\n\n$/.exec(frame.toString()) ?? []
      expect(name).to.equal(event)
      schema.parse(JSON.parse(data))
      const ajv = new Ajv({ strict: false })
      formats.default(ajv)
      const isValid = ajv.compile(document.components.messages[event].payload)
      expect(isValid(JSON.parse(data)), JSON.stringify(isValid.errors)).to.equal(true)
    })
})
