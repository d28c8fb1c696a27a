/**
 * The role `inventory-stand-in`: a stand-in for the game's platform on the process's HTTP host, for development and tests.
 *
 * Reads the catalog alone, keeps a count of refusals. It answers below its own path, and nothing asks it unless
 * MARKETLOG_INVENTORY_URL names it. Every answer has the shape of a recorded one - pages, `more_items`, `last_assetid`, HTML of
 * stickers and charms, properties of assets - and items are the catalog's, so they can be valued.
 */
import type { StartRole } from '#infra/runtime/role.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

export const STAND_IN_PATH = '/gamestore'

export const start: StartRole = async context => {
  const catalog = await context.catalog()
  const standIn = openStandIn(catalog.items())
  context.http.mount([STAND_IN_PATH], (request, response) => {
    const { status, type, body } = standIn.answer((request.url ?? '').slice(STAND_IN_PATH.length))
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body)
  })
  return { name: 'inventory-stand-in', ready: async () => undefined, stop: async () => {} }
}

interface Answer {
  status: number
  type: string
  body: string
}

/** Accounts that answer in their own way; the demo's own has an inventory, any other is unknown. */
export const STAND_IN = {
  full: '76561190000000001',
  empty: '76561190000000002',
  private: '76561190000000003',
  /** Refuses its first two requests. */
  busy: '76561190000000004',
  /** Never answers but with an error. */
  broken: '76561190000000005',
  /** Vanity name of the account with an inventory. */
  vanity: 'demo-trader',
} as const

const PAGE_MAX = 25
const ITEMS = 60
const NAME_TAG = 'Bought on a rainy day'

interface StoredAsset {
  assetid: string
  classid: string
  description: object
  properties: object[]
}

/** Opens the stand-in over a catalog; it answers a path with its query, as below the platform's root. */
export function openStandIn(catalog: readonly CatalogItem[]): { answer(path: string): Answer } {
  const assets = makeAssets(catalog)
  let refusals = 2
  return {
    answer(path) {
      const url = new URL(path, 'http://stand-in')
      const named = /^\/id\/([^/]+)\/?$/.exec(url.pathname)
      if (named) return profile(decodeURIComponent(named[1] ?? ''))
      const account = /^\/inventory\/(\d{17})\/730\/2$/.exec(url.pathname)?.[1]
      if (account === STAND_IN.empty) return json({ total_inventory_count: 0, success: 1, rwgrsn: -2 })
      if (account === STAND_IN.private) return { status: 403, type: 'application/json', body: 'null' }
      if (account === STAND_IN.broken) return { status: 500, type: 'application/json', body: 'null' }
      if (account === STAND_IN.busy && refusals > 0) {
        refusals -= 1
        return { status: 429, type: 'application/json', body: 'null' }
      }
      if (account === STAND_IN.full || account === STAND_IN.busy) return page(assets, url.searchParams)
      return { status: 404, type: 'application/json', body: '{"success":false}' }
    },
  }
}

const json = (body: object): Answer => ({ status: 200, type: 'application/json', body: JSON.stringify(body) })

function profile(name: string): Answer {
  const body =
    name === STAND_IN.vanity
      ? `<profile><steamID64>${STAND_IN.full}</steamID64><customURL><![CDATA[${name}]]></customURL></profile>`
      : '<response><error><![CDATA[The specified profile could not be found.]]></error></response>'
  return { status: 200, type: 'text/xml', body: `<?xml version="1.0" encoding="UTF-8"?>${body}` }
}

function page(assets: readonly StoredAsset[], query: URLSearchParams): Answer {
  const after = query.get('start_assetid')
  const from = after === null ? 0 : assets.findIndex(({ assetid }) => assetid === after) + 1
  const shown = assets.slice(from, from + Math.min(Number(query.get('count') ?? PAGE_MAX), PAGE_MAX))
  const hasMore = from + shown.length < assets.length
  return json({
    assets: shown.map(({ assetid, classid }) => ({ assetid, classid, instanceid: '0', amount: '1' })),
    descriptions: shown.map(({ description }) => description),
    asset_properties: shown.map(({ assetid, properties }) => ({ assetid, asset_properties: properties })),
    ...(hasMore && { more_items: 1, last_assetid: shown.at(-1)?.assetid }),
    total_inventory_count: assets.length,
    success: 1,
    rwgrsn: -2,
  })
}

/** Finishes with phases first, then others spread over the catalog, and last a medal that no market knows. */
function makeAssets(catalog: readonly CatalogItem[]): StoredAsset[] {
  const phased = catalog.filter(item => item.phase !== null && item.paint_index !== null)
  const others = catalog.filter(item => item.phase === null && item.item_type !== null)
  const spread = (items: readonly CatalogItem[], count: number): CatalogItem[] =>
    Array.from({ length: count }, (_, i) => items[Math.floor((i * items.length) / count)]).filter(
      item => item !== undefined,
    )
  const chosen = [...spread(phased, 5), ...spread(others, ITEMS - 6)]
  const medal = { market_hash_name: '2021 Service Medal', image_url: '', paint_index: null, wear_name: null }
  return [...chosen, medal].map((item, i) => makeAsset(item, i))
}

type Described = Pick<CatalogItem, 'market_hash_name' | 'image_url' | 'paint_index' | 'wear_name'>

function makeAsset(item: Described, i: number): StoredAsset {
  const isPainted = item.paint_index !== null
  const html = [
    ...(i % 7 === 0 ? [block('sticker_info', 'Sticker', ['Crown (Foil)', 'Natus Vincere | Cologne 2014'])] : []),
    ...(i % 11 === 0 ? [block('keychain_info', 'Charm', ["Lil' Ava"])] : []),
  ]
  const classid = String(4_000_000_000 + i)
  const isMarketable = item.market_hash_name !== '2021 Service Medal'
  return {
    assetid: String(31_200_000_000 + i * 17),
    classid,
    description: {
      appid: 730,
      classid,
      instanceid: '0',
      icon_url: item.image_url ?? '',
      name: item.market_hash_name.replace(` (${item.wear_name})`, ''),
      market_hash_name: item.market_hash_name,
      tradable: i % 5 === 0 ? 0 : 1,
      marketable: isMarketable ? 1 : 0,
      descriptions: [{ type: 'html', value: ' ' }, ...html.map(value => ({ type: 'html', value, name: 'applied' }))],
      ...(isPainted && {
        actions: [{ link: 'game://run/+csgo_econ_action_preview%20S%owner_steamid%A%assetid%D8421' }],
      }),
      ...(i % 13 === 0 && isPainted && { fraudwarnings: [`Name Tag: ''${NAME_TAG}''`] }),
    },
    properties: [
      ...(isPainted
        ? [
            { propertyid: 1, int_value: String((i * 37) % 1000), name: 'Pattern Template' },
            { propertyid: 2, float_value: (0.01 + ((i * 7) % 90) / 100).toFixed(8), name: 'Wear Rating' },
            { propertyid: 7, int_value: String(item.paint_index), name: 'Finish Catalog' },
          ]
        : []),
      ...(i % 11 === 0 ? [{ propertyid: 3, int_value: String(1000 + i), name: 'Charm Template' }] : []),
    ],
  }
}

function block(id: string, label: string, names: readonly string[]): string {
  const escaped = names.map(name => name.replaceAll('&', '&amp;').replaceAll("'", '&#39;'))
  const pictures = escaped.map(
    name => `<img width=64 height=48 src="https://images.example/a.png" title="${label}: ${name}">`,
  )
  return `<br><div id="${id}" class="applied" title="${label}"><center>${pictures.join('')}<br>${label}: ${escaped.join(', ')}</center></div>`
}
