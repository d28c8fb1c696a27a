/** The schema registry is asked again when a connection to it breaks; a role that started used to end. */
import { expect } from 'chai'
import { openCodec, registerSchemas } from '#infra/kafka/codec.ts'
import { refreshMarked } from '#schemas/events/book-changed.ts'
import { eventually } from '#test/harness/eventually.ts'
import { marked } from '#test/harness/published-records.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy, type WireProxy } from '#test/harness/wire-proxy.ts'

describe('lookups of schemas', () => {
  const platform = useServers({ setUp: false })
  let line: WireProxy

  before(async () => {
    line = await openWireProxy()
  })
  after(() => line.close())

  it('are repeated while the line to the registry is cut', async () => {
    const { namespace, config } = platform
    const { registry: settings, servers } = config
    await registerSchemas({ registry: { url: servers.schemaRegistry, settings }, namespace })
    const url = new URL(servers.schemaRegistry)
    line.forwardTo(Number(url.port))
    line.cut()
    url.port = String(line.port)
    const codec = openCodec({ registry: { url: url.href, settings }, namespace })
    const prepared = codec.prepare([refreshMarked])
    await eventually(() => line.harmed() > 1, 'lookups to be cut')
    line.heal()
    await prepared
    const about = marked()
    expect(codec.decode(codec.encode(refreshMarked, about)).value).to.include(about)
  })
})
