/**
 * The description of the feeds and of the log's topics as an AsyncAPI 3.0 document.
 *
 * Made of schemas/api/feed.ts, the catalogue of topics and the events' Avro schemas, and of nothing else.
 * Invariant: every topic of the catalogue is a channel with all of its events and its single writer's operation.
 */
import { z } from 'zod'
import type { EventSchema } from '../events/event.ts'
import { allTopics, type TopicDefinition } from '../topics.ts'
import { changedEvent, readyEvent, recordedEvent, replayEndEvent, resyncEvent, snapshotEndEvent } from './feed.ts'

const FEED_MESSAGES: Record<string, { schema: z.ZodType; summary: string }> = {
  ready: {
    schema: readyEvent,
    summary: 'The first event of every stream; with resume=true its id is where the stream begins.',
  },
  'prices.changed': { schema: changedEvent, summary: 'Asks of one provider that changed.' },
  'bids.changed': { schema: changedEvent, summary: 'Buy orders of one provider that changed.' },
  'sales.recorded': { schema: recordedEvent, summary: 'Sales that one provider reported.' },
  resync: { schema: resyncEvent, summary: 'With resume=true: what was missed cannot be delivered.' },
  'snapshot.end': { schema: snapshotEndEvent, summary: 'With snapshot=true: the state is complete, changes follow.' },
  'replay.end': { schema: replayEndEvent, summary: 'A replay is complete.' },
}

const SIDES = [
  { name: 'Prices', path: 'prices', event: 'prices.changed', records: 'changes of asks' },
  { name: 'Bids', path: 'bids', event: 'bids.changed', records: 'changes of buy orders' },
  { name: 'Sales', path: 'sales', event: 'sales.recorded', records: 'sales' },
]

const FEEDS = SIDES.flatMap(({ name, path, event, records }) => [
  {
    name: `feed${name}`,
    address: `/v1/feed/${path}`,
    messages: ['ready', event, 'resync', ...(event === 'sales.recorded' ? [] : ['snapshot.end'])],
    description: `${records.replace(/^./, first => first.toUpperCase())} as Server-Sent Events.`,
  },
  {
    name: `feedReplay${name}`,
    address: `/v1/feed/replay/${path}`,
    messages: ['ready', event, 'replay.end'],
    description: `Recorded ${records}, at any speed, as Server-Sent Events.`,
  },
])

const AVRO = 'application/vnd.apache.avro;version=1.9.0'

export function asyncApiDocument(options: { baseUrl: string }): object {
  const { protocol, host, pathname } = new URL(options.baseUrl)
  const events = new Map(allTopics.flatMap(topic => topic.events.map(event => [event.name, event])))
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'marketlog feeds and topics',
      version: '1.0.0',
      description:
        'Live feeds of price and bid changes and of sales (quant tier), and the topics of the log that they and all views are derived from.',
    },
    defaultContentType: 'application/json',
    servers: {
      feeds: {
        host,
        pathname,
        protocol: protocol.slice(0, -1),
        description: 'Server-Sent Events over HTTP.',
        security: [{ $ref: '#/components/securitySchemes/apiKey' }, { $ref: '#/components/securitySchemes/feedToken' }],
      },
      log: { host: 'log.internal:9092', protocol: 'kafka', description: 'The message log; inside the platform alone.' },
    },
    channels: Object.fromEntries([
      ...FEEDS.map(({ name, address, messages, description }) => [
        name,
        { address, description, servers: [ref('servers', 'feeds')], messages: messageRefs(messages) },
      ]),
      ...allTopics.map(topic => [channelName(topic), topicChannel(topic)]),
    ]),
    operations: Object.fromEntries([
      ...FEEDS.map(({ name, description }) => [`send.${name}`, sendOn(name, description)]),
      ...allTopics.map(topic => [
        `write.${channelName(topic)}`,
        sendOn(channelName(topic), `Written by ${topic.writer}; read by ${topic.readers.join(', ') || 'no role'}.`),
      ]),
    ]),
    components: {
      messages: Object.fromEntries([
        ...Object.entries(FEED_MESSAGES).map(([name, message]) => [name, feedMessage(name, message)]),
        ...[...events].map(([name, event]) => [name, topicMessage(event)]),
      ]),
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key of the quant tier.' },
        feedToken: {
          type: 'httpApiKey',
          in: 'query',
          name: 'token',
          description: 'A token of POST /v1/feed/token, for browsers; good for one connect.',
        },
      },
    },
  }
}

const ref = (...path: string[]) => ({ $ref: `#/${path.join('/')}` })

const messageRefs = (names: readonly string[]) =>
  Object.fromEntries(names.map(name => [name, ref('components', 'messages', name)]))

const channelName = ({ name }: TopicDefinition): string => `topic.${name}`

const sendOn = (channel: string, summary: string) => ({ action: 'send', channel: ref('channels', channel), summary })

function feedMessage(name: string, { schema, summary }: { schema: z.ZodType; summary: string }): object {
  const { $schema, ...payload } = z.toJSONSchema(schema, {
    override: ({ jsonSchema }) => void delete jsonSchema.example,
  })
  return { name, title: name, summary, contentType: 'application/json', payload }
}

function topicMessage({ name, version, avro }: EventSchema<object>): object {
  return {
    name,
    title: `${name}, version ${version}`,
    summary: avro.doc,
    contentType: 'application/octet-stream',
    payload: { schemaFormat: AVRO, schema: avro },
  }
}

function topicChannel({ name, key, events, partitions, retention }: TopicDefinition): object {
  const configuration =
    retention.policy === 'compact'
      ? { 'cleanup.policy': ['compact'] }
      : { 'cleanup.policy': ['delete'], 'retention.ms': retention.ms, 'retention.bytes': retention.bytesPerPartition }
  return {
    address: name,
    description: `Keyed by ${key}.`,
    servers: [ref('servers', 'log')],
    messages: messageRefs(events.map(event => event.name)),
    bindings: {
      kafka: { topic: name, partitions, topicConfiguration: configuration, bindingVersion: '0.5.0' },
    },
  }
}
