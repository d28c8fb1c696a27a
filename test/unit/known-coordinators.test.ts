import { expect } from 'chai'
import { withKnownCoordinators } from '#infra/kafka/client/coordinators.ts'

const [GROUP, TRANSACTION] = [0, 1]
const book0 = { groupId: 'book-0', coordinatorType: TRANSACTION }

/** A cluster whose coordinator of the n-th search is the broker n. */
function openSearches() {
  const searches: string[] = []
  const state = { clock: 0, isAway: false }
  const cluster = {
    async findGroupCoordinatorMetadata({ groupId, coordinatorType }: typeof book0) {
      searches.push(`${coordinatorType} ${groupId}`)
      if (state.isAway) throw new Error('not available')
      return { coordinator: { nodeId: String(searches.length) } }
    },
    /** Searches from within the client. */
    async nodeOf(group: typeof book0): Promise<string> {
      return (await this.findGroupCoordinatorMetadata(group)).coordinator.nodeId
    },
  }
  return { searches, state, known: withKnownCoordinators(cluster, () => state.clock) }
}

describe('known coordinators', () => {
  it('are searched once by group and kind', async () => {
    const { known, searches } = openSearches()
    const groups = [book0, book0, { ...book0, coordinatorType: GROUP }, { ...book0, groupId: 'book-1' }, book0]
    for (const group of groups) await known.nodeOf(group)
    expect(searches).to.deep.equal(['1 book-0', '0 book-0', '1 book-1'])
  })

  it('are searched again after two seconds, so that a move is met', async () => {
    const { known, state } = openSearches()
    const nodes: string[] = []
    for (const clock of [0, 1_999, 2_000]) {
      state.clock = clock
      nodes.push(await known.nodeOf(book0))
    }
    expect(nodes).to.deep.equal(['1', '1', '2'])
  })

  it('that could not be found are searched again at once', async () => {
    const { known, state } = openSearches()
    state.isAway = true
    expect(await known.nodeOf(book0).catch((error: Error) => error.message)).to.equal('not available')
    state.isAway = false
    expect(await known.nodeOf(book0)).to.equal('2')
  })
})
