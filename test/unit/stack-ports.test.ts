import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { openPortBook } from '#infra/stack/ports.ts'

describe('ports of servers', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'marketlog-ports-'))
  after(() => rmSync(dataDir, { recursive: true }))
  const remembered = () => JSON.parse(readFileSync(join(dataDir, 'ports.json'), 'utf8')).kafka
  const fixed = () => openPortBook(dataDir, { isFixed: true })('kafka')

  it('are waited for by a server that is started again, which used to take another for good', async () => {
    const port = await openPortBook(dataDir)('kafka')
    const holder = createServer().listen(port, '127.0.0.1')
    await once(holder, 'listening')
    const refused = await fixed().catch((error: Error) => error.message)
    expect(refused).to.equal(`its port ${port} is held by something else`)
    expect(remembered()).to.equal(port)
    holder.close()
    await once(holder, 'close')
    expect(await fixed()).to.equal(port)
  })
})
