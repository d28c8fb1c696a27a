/** The cluster is the two methods of the client's that ask. */
import { expect } from 'chai'
import { withKnownCoordinators } from '#infra/kafka/client/known-coordinators.ts'

const [GROUP, TRANSACTION] = [0, 1]

function openCluster() {
  const asked: string[] = []
  let clock = 0
  let fault: Error | undefined
  const cluster = {
    nodeId: 1,
    async findGroupCoordinatorMetadata({ groupId, coordinatorType }: { groupId: string; coordinatorType: number }) {
      asked.push(`${coordinatorType} ${groupId}`)
      if (fault) throw fault
      return { nodeId: this.nodeId }
    },
    async findGroupCoordinator(wanted: { groupId: string; coordinatorType: number }): Promise<unknown> {
      return this.findGroupCoordinatorMetadata(wanted)
    },
  }
  return {
    cluster,
    asked,
    known: withKnownCoordinators(cluster, () => clock),
    pass(ms: number): void {
      clock += ms
    },
    fail(error: Error | undefined): void {
      fault = error
    },
  }
}

describe('known coordinators', () => {
  const wanted = { groupId: 'book-0', coordinatorType: TRANSACTION }

  it('are asked for once by what calls the search from within the client', async () => {
    const { known, asked } = openCluster()
    for (let turn = 0; turn < 4; turn++) expect(await known.findGroupCoordinator(wanted)).to.deep.equal({ nodeId: 1 })
    expect(asked).to.deep.equal(['1 book-0'])
  })

  it('are not taken for those of another group or kind', async () => {
    const { known, asked } = openCluster()
    await known.findGroupCoordinator(wanted)
    await known.findGroupCoordinator({ groupId: 'book-0', coordinatorType: GROUP })
    await known.findGroupCoordinator({ groupId: 'book-1', coordinatorType: TRANSACTION })
    expect(asked).to.deep.equal(['1 book-0', '0 book-0', '1 book-1'])
  })

  it('are asked for again after two seconds, so that a move is met', async () => {
    const { known, cluster, pass } = openCluster()
    await known.findGroupCoordinator(wanted)
    cluster.nodeId = 2
    pass(1_999)
    expect(await known.findGroupCoordinator(wanted)).to.deep.equal({ nodeId: 1 })
    pass(1)
    expect(await known.findGroupCoordinator(wanted)).to.deep.equal({ nodeId: 2 })
  })

  it('that could not be found are asked for again at once', async () => {
    const { known, asked, fail } = openCluster()
    fail(new Error('not available'))
    expect(await known.findGroupCoordinator(wanted).catch((error: Error) => error.message)).to.equal('not available')
    fail(undefined)
    expect(await known.findGroupCoordinator(wanted)).to.deep.equal({ nodeId: 1 })
    expect(asked).to.have.length(2)
  })
})
