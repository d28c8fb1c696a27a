/** The schema registry is asked again when an answer is lost; a role or a set-up used to end by it. */
import { expect } from 'chai'
import { openCodec } from '#infra/kafka/codec.ts'
import { registerSchemas } from '#infra/kafka/schema-registry.ts'
import { refreshMarked } from '#schemas/events/book-changed.ts'
import { eventually } from '#test/harness/eventually.ts'
import { marked } from '#test/harness/published-records.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy, type WireProxy } from '#test/harness/wire-proxy.ts'

describe('schemas of a start', () => {
  const platform = useServers({ setUp: false })
  let line: WireProxy

  before(async () => {
    line = await openWireProxy()
  })
  after(() => line.close())

  it('are registered and looked up again while the line to the registry is cut', async () => {
    const { namespace, config } = platform
    const { registry: settings, servers } = config
    const url = new URL(servers.schemaRegistry)
    line.forwardTo(Number(url.port))
    url.port = String(line.port)
    const registry = { url: url.href, settings }
    const overCutLine = async (work: () => Promise<void>): Promise<void> => {
      const harmed = line.harmed()
      line.cut()
      const done = work()
      await eventually(() => line.harmed() > harmed + 1, 'requests to be cut')
      line.heal()
      await done
    }
    await overCutLine(() => registerSchemas({ registry, namespace }))
    const codec = openCodec({ registry, namespace })
    await overCutLine(() => codec.prepare([refreshMarked]))
    const about = marked()
    expect(codec.decode(codec.encode(refreshMarked, about)).value).to.include(about)
  })
})
