import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import { assetsOf, inventoryPage } from '#services/inventory/asset.ts'
import { matchAsset } from '#services/inventory/reader.ts'

const ACCOUNT = '76561190000000001'
const scope = { accountId: ACCOUNT, imageRoot: 'https://images.example/' }

const pageOf = (described: object, properties: object[] = [], asset: object = {}) =>
  inventoryPage.parse({
    assets: [{ appid: 730, contextid: '2', assetid: '31', classid: '7', instanceid: '0', amount: '1', ...asset }],
    descriptions: [{ appid: 730, classid: '7', instanceid: '0', name: 'AWP | Asiimov', ...described }],
    asset_properties: [{ appid: 730, contextid: '2', assetid: '31', asset_properties: properties }],
    total_inventory_count: 1,
    success: 1,
    rwgrsn: -2,
  })
const read = (...args: Parameters<typeof pageOf>) => {
  const [asset] = assetsOf(pageOf(...args), scope)
  if (!asset) throw new Error('no asset')
  return asset
}
const html = (id: string, ...titles: string[]) =>
  `<br><div id="${id}" class="x" title="y"><center>${titles.map(title => `<img width=64 src="a.png" title="${title}">`).join('')}<br>Sticker: list, of names</center></div>`
/** What is applied to an asset, as its description lists it. */
const applied = (id: string, ...titles: string[]) => ({ descriptions: [{ value: html(id, ...titles) }] })

describe('an asset of the platform', () => {
  it('has nothing that the platform does not give', () => {
    expect(read({})).to.deep.equal({
      assetid: '31',
      market_hash_name: '',
      paint_index: null,
      name: 'AWP | Asiimov',
      icon_url: '',
      tradable: false,
      marketable: false,
      quantity: 1,
      float_value: null,
      paint_seed: null,
      inspect_link: null,
      name_tag: null,
      stickers: null,
      charms: null,
    })
  })

  const has = (name: string, then: object, ...given: Parameters<typeof pageOf>) =>
    it(`has ${name}`, () => void expect(read(...given)).to.deep.include(then))
  /** The inspect link, wherever the action stands. */
  function inspected(link: string, then: string | null) {
    const properties = [
      { propertyid: 1, int_value: '661' },
      { propertyid: 2, float_value: '0.25' },
      { propertyid: 6, string_value: '00183C20AF' },
    ]
    const wiki = { link: 'https://wiki.example/item', name: 'View Wiki' }
    has(`the inspect link ${then} of ${link}`, { inspect_link: then }, { actions: [wiki, {}, { link }] }, properties)
  }

  has('float, seed and finish', { float_value: 0.2500000001, paint_seed: 661, paint_index: 418 }, {}, [
    { propertyid: 2, float_value: '0.2500000001' },
    { propertyid: 1, int_value: '661' },
    { propertyid: 7, int_value: '418' },
  ])
  has('no float beyond its bounds', { float_value: null }, {}, [{ propertyid: 2, float_value: '1.5' }])
  has('a name tag as a property', { name_tag: 'mine' }, {}, [{ propertyid: 5, string_value: 'mine' }])
  has(
    'a name tag with quotes as a warning',
    { name_tag: "it's ''mine''" },
    { fraudwarnings: ["Name Tag: ''it's ''mine''''"] },
  )
  has(
    'stickers with commas, bars and entities in their names',
    {
      stickers: [
        { name: 'Battle, Scarred', slot: 0, wear: null },
        { name: 'A & B | Cologne 2014', slot: 1, wear: null },
        { name: "Lil' Ava", slot: 2, wear: null },
      ],
    },
    applied('sticker_info', 'Sticker: Battle, Scarred', 'Sticker: A &amp; B | Cologne 2014', 'Sticker: Lil&#39; Ava'),
  )
  has(
    'a charm and its pattern',
    { charms: [{ name: 'Hot Sauce', pattern_id: 4711 }], stickers: null },
    applied('keychain_info', 'Charm: Hot Sauce'),
    [{ propertyid: 3, int_value: '4711' }],
  )
  inspected(
    'steam://rungame/730/1/+csgo_econ_action_preview%20S%owner_steamid%A%assetid%D1',
    `steam://rungame/730/1/+csgo_econ_action_preview%20S${ACCOUNT}A31D1`,
  )
  inspected(
    'steam://run/730//+csgo_econ_action_preview%20%propid:6%',
    'steam://run/730//+csgo_econ_action_preview%2000183C20AF',
  )
  inspected(
    'steam://run/730//+csgo_econ_action_preview%20%propid:1%X%propid:2%',
    'steam://run/730//+csgo_econ_action_preview%20661X0.25',
  )
  inspected('steam://run/730//+csgo_econ_action_preview%20%E5%88%80%propid:9%', null)
  inspected('steam://run/730//+csgo_econ_action_preview%20M%listingid%A%assetid%D1', null)
  inspected('javascript://+csgo_econ_action_preview%0aalert(1)', null)
  inspected('https://wiki.example/csgo', null)
  has(
    'nothing that is in a form that is not known',
    {
      name: '',
      market_hash_name: '',
      icon_url: '',
      tradable: false,
      marketable: false,
      quantity: 1,
      float_value: null,
      inspect_link: null,
      name_tag: null,
      stickers: null,
      charms: null,
    },
    {
      name: null,
      market_hash_name: 7,
      icon_url: {},
      tradable: null,
      marketable: [],
      actions: null,
      tags: null,
      descriptions: 'none',
      fraudwarnings: {},
    },
    [{ propertyid: 2, float_value: {} }, { propertyid: 'x' }, null as unknown as object],
    { instanceid: '0', amount: null },
  )
  has(
    'its numbers as texts and as numbers',
    { assetid: '31', tradable: true, marketable: true, paint_seed: 661, quantity: 12 },
    { classid: 7, instanceid: 0, tradable: '1', marketable: 'true' },
    [{ propertyid: '1', int_value: 661 }],
    { assetid: 31, classid: 7, instanceid: null, amount: 12 },
  )
  has('its picture below the root', { icon_url: 'https://images.example/abc' }, { icon_url: 'abc' })
  has(
    'no NUL and no half of a surrogate pair',
    { market_hash_name: 'ab\ufffd', name_tag: '' },
    { market_hash_name: 'a\0b\ud800' },
    [{ propertyid: 5, string_value: '\0' }],
  )
  has(
    'patches of a block of their own',
    { stickers: ['Metal Silver', 'Crown'].map((name, slot) => ({ name, slot, wear: null })) },
    { descriptions: [null, { value: html('patch_info', 'Patch: Metal Silver', 'Patch: Crown') }] },
  )
  has(
    'a slab as a charm, which is no charm of that name',
    { charms: [{ name: 'Sticker Slab: Crown (Foil)', pattern_id: null }] },
    applied('keychain_info', 'Sticker Slab: Crown (Foil)'),
  )
  has(
    'no stickers where one has no name',
    { stickers: null },
    { descriptions: [{ value: html('sticker_info', 'Sticker: Crown (Foil)').replace('<br>Sticker', '<img>$&') }] },
  )
  has(
    'no empty list of what is applied',
    { stickers: null, charms: null },
    { descriptions: [{ value: html('sticker_info') }, { value: '<div id="keychain_info"><b>new</b></div>' }] },
  )

  it('is listed without a name where it has no description', () => {
    const page = inventoryPage.parse({
      success: true,
      assets: [{ assetid: '31', classid: '7' }],
      descriptions: null,
      asset_properties: null,
      more_items: null,
      last_assetid: null,
      total_inventory_count: '1',
    })
    expect(page).to.include({ success: true, more_items: false, total_inventory_count: '1' })
    expect(assetsOf(page, scope)).to.deep.equal(assetsOf(pageOf({ name: '' }), scope))
  })
  it('is none of a page without assets, and may be more of a page that says so', () => {
    for (const empty of [{ total_inventory_count: 0, success: 1 }, { assets: null }, {}]) {
      const page = inventoryPage.parse(empty)
      expect([assetsOf(page, scope), page.more_items, page.success]).to.deep.equal([[], false, true])
    }
    for (const more_items of [1, true, '1', 'true', {}])
      expect(inventoryPage.parse({ more_items }).more_items).to.equal(true)
    for (const more_items of [0, false, '0', 'false', null])
      expect(inventoryPage.parse({ more_items }).more_items).to.equal(false)
    for (const success of [0, false, '0', 2, 16]) expect(inventoryPage.parse({ success }).success).to.equal(false)
  })
})

describe('the item of an asset', () => {
  const catalog = loadCatalog()
  const byId = new Map(catalog.map(item => [item.item_id, item]))
  const names = { ...openItemNames(catalog), byId: (id: number) => byId.get(id) }
  it('is the one of its name and finish, for every item of the catalog', () => {
    for (const item of catalog) {
      if (item.phase !== null && item.paint_index === null) continue
      const found = matchAsset(names, { market_hash_name: item.market_hash_name, paint_index: item.paint_index })
      expect(found?.item_id, `${item.market_hash_name} ${item.phase}`).to.equal(item.item_id)
    }
  })
  it('is the finish as a whole when the platform gives no finish, and none for a name that is not known', () => {
    const phased = catalog.find(item => item.phase === 'Ruby')
    const name = phased?.market_hash_name ?? ''
    expect(matchAsset(names, { market_hash_name: name, paint_index: null })).to.include({
      market_hash_name: name,
      phase: null,
    })
    expect(
      matchAsset(names, { market_hash_name: `${name.replace(' ', '\u00a0')} `, paint_index: null })?.phase,
    ).to.equal(null)
    expect(matchAsset(names, { market_hash_name: '2021 Service Medal', paint_index: null })).to.equal(undefined)
  })
})
