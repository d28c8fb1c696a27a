import { expect } from 'chai'
import { chooseRoles, GROUPS, ROLE_NAMES } from '#services/cli/roles.ts'

describe('roles', () => {
  it('are all of them when none is named', () => {
    expect(chooseRoles([])).to.deep.equal(ROLE_NAMES.filter(name => name !== 'inventory-stand-in'))
    expect(chooseRoles(['inventory-stand-in'])).to.deep.equal(['inventory-stand-in'])
  })

  it('start in one order, however they are named, and once each', () => {
    expect(chooseRoles(['ingest', 'book', 'ingest', 'fx'])).to.deep.equal(
      ROLE_NAMES.filter(name => ['fx', 'book', 'ingest'].includes(name)),
    )
  })

  it('start with the readers and end with what feeds them', () => {
    expect(ROLE_NAMES.at(-1)).to.equal('ingest')
  })

  it('are refused by name when there is no such role', () => {
    expect(() => chooseRoles(['book', 'bok'])).to.throw(/no role is called bok\. Roles: .*book/)
  })

  it('run in exactly one process of a platform each', () => {
    expect(GROUPS.flatMap(group => group.roles).sort()).to.deep.equal([...ROLE_NAMES].sort())
  })
})
