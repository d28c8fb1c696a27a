import { expect } from 'chai'
import { decideCatalog } from '#services/cli/set-up.ts'

const log = (newest: string | undefined, isLast = true) => ({ newest, isLast })

describe('a start with a catalog', () => {
  for (const { name, own, published, decision } of [
    { name: 'publishes into an empty log', own: '2-aa', published: log(undefined, false), decision: 'published' },
    { name: 'publishes over an older one', own: '3-aa', published: log('2-bb'), decision: 'published' },
    { name: 'publishes over one without a revision', own: '1-aa', published: log('bb'), decision: 'published' },
    { name: 'leaves its own in place', own: '2-aa', published: log('2-aa'), decision: 'in place' },
    {
      name: 'repeats its own publication that was cut off',
      own: '2-aa',
      published: log('2-aa', false),
      decision: 'published',
    },
    { name: 'leaves a newer one in place', own: '2-aa', published: log('3-bb'), decision: 'left' },
    {
      name: 'used to publish an older one after a newer was cut off',
      own: '2-aa',
      published: log('3-bb', false),
      decision: 'left',
    },
    { name: 'leaves another content of its revision in place', own: '2-aa', published: log('2-bb'), decision: 'left' },
  ] as const)
    it(name, () => expect(decideCatalog(own, published)).to.equal(decision))
})
