/**
 * The catalog's version never goes back, whatever image starts and whatever was cut off.
 */
import { expect } from 'chai'
import { decideCatalog } from '#services/cli/set-up.ts'
import { catalogSteps, formatSteps } from '#services/cli/upgrade.ts'

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

  it('is planned as it is decided', () => {
    expect(catalogSteps('2-aa', log('2-aa'))).to.deep.equal([])
    expect(catalogSteps('2-aa', log('3-bb')).map(({ does }) => does)).to.deep.equal(['leave'])
    expect(catalogSteps('2-aa', log(undefined)).map(({ does }) => does)).to.deep.equal(['change'])
  })
})

describe('a start with stored forms', () => {
  it('builds those of other versions again, older and newer ones alike', () => {
    const does = (format: number | undefined) =>
      formatSteps({ name: 'live table', format, own: 2 }).map(step => step.does)
    expect([1, 2, 3, undefined].map(does)).to.deep.equal([['rebuild'], [], ['rebuild'], []])
  })
})
