import { expect } from 'chai'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { openRefreshPublisher } from '#services/ingest/publish-refresh.ts'

describe('ingest: refresh publisher', () => {
  const open = () => openRefreshPublisher({} as Codec)({} as Publisher)
  const turn = () => new Promise(resolve => setImmediate(resolve))

  it('lets a bounded number in and the others follow in order', async () => {
    const refreshPublisher = open()
    const entered: number[] = []
    const leaves: (() => void)[] = []
    for (let i = 0; i < 10; i++) {
      void refreshPublisher.acquire().then(leave => {
        entered.push(i)
        leaves.push(leave)
      })
    }
    await turn()
    const bound = entered.length
    expect(bound).to.be.within(2, 4)
    while (entered.length < 10) {
      const before = entered.length
      leaves.shift()?.()
      await turn()
      expect(entered.length).to.equal(before + 1)
    }
    expect(entered).to.deep.equal([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })

  it('counts a turn that is given back twice once', async () => {
    const refreshPublisher = open()
    const leave = await refreshPublisher.acquire()
    leave()
    leave()
    const entered: number[] = []
    for (let i = 0; i < 10; i++) void refreshPublisher.acquire().then(() => entered.push(i))
    await turn()
    const fresh: number[] = []
    const other = open()
    for (let i = 0; i < 10; i++) void other.acquire().then(() => fresh.push(i))
    await turn()
    expect(entered).to.deep.equal(fresh)
  })
})
