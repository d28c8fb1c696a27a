/**
 * Parses a page of the platform's inventory.
 *
 * In the platform's format `assets` refer to `descriptions` by class and instance; the properties of a single asset are in
 * `asset_properties` and in the descriptions' HTML. A member that the platform omits, or sends in a form that is not known,
 * is null or empty; an asset without a description is listed without a name.
 */
import { z } from 'zod'
import type { inventoryReply } from '#schemas/api/inventory.ts'

/** An asset as the API lists it, before the catalog is asked. */
export interface PlatformAsset extends Omit<z.infer<typeof inventoryReply>['data'][number], 'phase'> {
  /** Which finish it has: distinguishes phases. */
  paint_index: number | null
}

/** NULs and halves of surrogate pairs, which a store of texts could not hold, are left out. */
const words = z.string().transform(text => text.replaceAll('\0', '').toWellFormed())
const text = words.catch('')
const digits = z.union([words, z.number()]).transform(String)
const flag = z.union([z.number(), z.boolean(), z.string()]).transform(value => value === 'true' || Number(value) === 1)

/** The elements that are in a known form; none where the list is not. */
const listOf = <Element extends z.ZodType>(element: Element) =>
  z
    .array(z.unknown())
    .catch([])
    .transform(all =>
      all.flatMap(one => {
        const read = element.safeParse(one)
        return read.success ? [read.data] : []
      }),
    )

const instanceid = digits.catch('0')

const description = z.object({
  classid: digits,
  instanceid,
  icon_url: text,
  name: text,
  market_hash_name: text,
  tradable: flag.catch(false),
  marketable: flag.catch(false),
  descriptions: listOf(z.object({ value: words })),
  actions: listOf(z.object({ link: words })),
  fraudwarnings: listOf(words),
})

const property = z.object({
  propertyid: z.coerce.number(),
  int_value: digits.optional().catch(undefined),
  float_value: digits.optional().catch(undefined),
  string_value: words.optional().catch(undefined),
})

const asset = z.object({ assetid: digits, classid: digits.catch(''), instanceid, amount: digits.catch('1') })

/** A page as the platform sends it; members that nothing here reads are ignored. */
export const inventoryPage = z.object({
  success: flag.catch(true),
  assets: z
    .array(asset)
    .nullish()
    .transform(all => all ?? []),
  descriptions: listOf(description),
  asset_properties: listOf(z.object({ assetid: digits, asset_properties: listOf(property) })),
  /** In no known form it is true, so that the inventory fails rather than ends early. */
  more_items: flag.nullish().catch(true).transform(Boolean),
  last_assetid: digits.optional().catch(undefined),
  total_inventory_count: digits.catch(''),
})

export type InventoryPage = z.infer<typeof inventoryPage>

/** The platform's numbers of what is particular to an asset. */
const PROPERTY = { seed: 1, float: 2, charmPattern: 3, nameTag: 5, finish: 7 } as const

interface AssetScope {
  accountId: string
  /** Root of the platform's pictures, with a trailing slash. */
  imageRoot: string
}

export function assetsOf(page: InventoryPage, scope: AssetScope): PlatformAsset[] {
  const describedBy = new Map(page.descriptions.map(one => [`${one.classid}_${one.instanceid}`, one]))
  const propertiesOf = new Map(page.asset_properties.map(one => [one.assetid, one.asset_properties]))
  return page.assets.map(({ assetid, classid, instanceid, amount }): PlatformAsset => {
    const described = describedBy.get(`${classid}_${instanceid}`) ?? NOT_DESCRIBED
    const properties = new Map((propertiesOf.get(assetid) ?? []).map(one => [one.propertyid, one]))
    const integer = (id: number): number | null => wholeNumber(properties.get(id)?.int_value)
    const html = described.descriptions.map(({ value }) => value).join('\n')
    return {
      assetid,
      market_hash_name: described.market_hash_name,
      paint_index: integer(PROPERTY.finish),
      name: described.name,
      icon_url: pictureOf(described.icon_url, scope),
      tradable: described.tradable,
      marketable: described.marketable,
      quantity: Math.max(1, wholeNumber(amount) ?? 1),
      float_value: share(properties.get(PROPERTY.float)?.float_value),
      paint_seed: integer(PROPERTY.seed),
      inspect_link: inspectLink(described.actions, { assetid, properties, accountId: scope.accountId }),
      name_tag: properties.get(PROPERTY.nameTag)?.string_value ?? nameTagOf(described.fraudwarnings),
      stickers: applied(html, STICKERS)?.map((name, slot) => ({ name, slot, wear: null })) ?? null,
      charms: applied(html, CHARMS)?.map(name => ({ name, pattern_id: integer(PROPERTY.charmPattern) })) ?? null,
    }
  })
}

const NOT_DESCRIBED = description.parse({ classid: '' })

function wholeNumber(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null
}

function share(text: string | undefined): number | null {
  const value = text === undefined || text === '' ? Number.NaN : Number(text)
  return value >= 0 && value <= 1 ? value : null
}

/** The platform names a picture by what follows its root. */
const pictureOf = (icon: string, { imageRoot }: AssetScope): string =>
  icon === '' || /^https?:/.test(icon) ? icon : imageRoot + icon

const INSPECTING = /^(?!javascript|data|vbscript)[a-z]+:\/\/.*csgo_econ_action_preview/i
/** Of the platform's own: `%listingid%`, `%propid:6%`; no escaped bytes. */
const PLACEHOLDER = /%[a-z_]{3,}(:\d+)?%/i

/** The first action that inspects and of whose placeholders the asset has all. */
function inspectLink(
  actions: readonly { link: string }[],
  of: { assetid: string; accountId: string; properties: ReadonlyMap<number, z.infer<typeof property>> },
): string | null {
  const links = actions.map(({ link }) =>
    link
      .replaceAll('%owner_steamid%', of.accountId)
      .replaceAll('%assetid%', of.assetid)
      .replaceAll(/%propid:(\d+)%/g, (placeholder, id) => {
        const { string_value, float_value, int_value } = of.properties.get(Number(id)) ?? {}
        return encodeURIComponent(string_value ?? float_value ?? int_value ?? '') || placeholder
      }),
  )
  return links.find(link => INSPECTING.test(link) && !PLACEHOLDER.test(link)) ?? null
}

function nameTagOf(warnings: readonly string[]): string | null {
  for (const warning of warnings) {
    const tag = /^Name Tag: ''(.*)''$/s.exec(warning)?.[1]
    if (tag !== undefined) return tag
  }
  return null
}

const STICKERS = /id="(?:sticker|patch)_info"/
const CHARMS = /id="keychain_info"/

/** The titles of the pictures in blocks of HTML, one for each that is applied; null where there are none, or one lacks its title. */
function applied(html: string, block: RegExp): string[] | null {
  const blocks = html.split(block).slice(1)
  const pictures = blocks.flatMap(after => after.split('</div>', 1)[0]?.match(/<img\b[^<>]*>/g) ?? [])
  const names = pictures.flatMap(picture => /\btitle="(?:(?:Sticker|Patch|Charm): )?([^"]+)"/.exec(picture)?.[1] ?? [])
  return names.length > 0 && names.length === pictures.length ? names.map(unescaped) : null
}

const ENTITIES: Record<string, string> = { '&amp;': '&', '&quot;': '"', '&#39;': "'", '&lt;': '<', '&gt;': '>' }

const unescaped = (text: string): string => text.replaceAll(/&(?:amp|quot|#39|lt|gt);/g, one => ENTITIES[one] ?? one)
