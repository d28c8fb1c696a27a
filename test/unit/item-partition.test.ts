/** What a key's partition is, is compared with Kafka's own clients elsewhere. */
import { expect } from 'chai'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { partitionOf } from '#schemas/values/partition.ts'

describe('the partition of an item', () => {
  it('is that of its id as a key, the first time and the next', () => {
    const ids = [0, 39_560, (1 << 17) - 1, 1 << 17, 2 ** 40, ...Array.from({ length: 5_000 }, (_, id) => id * 7)]
    for (const id of ids) {
      const own = partitionOf(String(id), ITEM_PARTITIONS)
      expect([partitionOfItem(id), partitionOfItem(id)], `item ${id}`).to.deep.equal([own, own])
    }
    expect(new Set(ids.map(partitionOfItem)).size).to.equal(ITEM_PARTITIONS)
  })
})
