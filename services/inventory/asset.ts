/**
 * Parses a page of the platform's inventory.
 *
 * In the platform's format `assets` refer to `descriptions` by class and instance; the properties of a single asset are in
 * `asset_properties` and in the descriptions' HTML. A member that the platform omits, or sends in a form that is not known,
 * is null; an asset without a description is left out.
 */
import { z } from 'zod'
import type { AssetMembers } from '#schemas/api/portfolios.ts'

/** An asset, before the catalog is asked. */
export interface PlatformAsset {
  assetid: string
  marketHashName: string
  /** Which finish it has: distinguishes phases. */
  paintIndex: number | null
  name: string
  iconUrl: string
  isTradable: boolean
  isMarketable: boolean
  quantity: number
  details: AssetMembers
  /** Labels of the platform's own tags, by category: rarity, exterior and so on. */
  tags: Readonly<Record<string, string>>
}

/** What a store of texts could not hold is left out: NULs, and halves of surrogate pairs. */
const words = z.string().transform(text => text.replaceAll('\0', '').toWellFormed())
const digits = z.union([z.string(), z.number()]).transform(String)
const flag = z.union([z.number(), z.boolean(), z.string()]).transform(value => Number(value) === 1)

const description = z.object({
  classid: digits,
  instanceid: digits.default('0'),
  icon_url: words.default(''),
  name: words.default(''),
  market_hash_name: words.default(''),
  tradable: flag.default(false),
  marketable: flag.default(false),
  descriptions: z.array(z.object({ value: words.default(''), name: z.string().optional() })).default([]),
  actions: z.array(z.object({ link: words })).default([]),
  fraudwarnings: z.array(words).default([]),
  tags: z.array(z.object({ category: z.string(), localized_tag_name: z.string().default('') })).default([]),
})

const property = z.object({
  propertyid: z.number(),
  int_value: digits.optional(),
  float_value: digits.optional(),
  string_value: words.optional(),
})

/** A page as the platform sends it; members that nothing here reads are ignored. */
export const inventoryPage = z.object({
  success: flag.default(true),
  assets: z
    .array(z.object({ assetid: digits, classid: digits, instanceid: digits.default('0'), amount: digits.default('1') }))
    .default([]),
  descriptions: z.array(description).default([]),
  asset_properties: z.array(z.object({ assetid: digits, asset_properties: z.array(property).default([]) })).default([]),
  more_items: flag.default(false),
  last_assetid: digits.optional(),
  total_inventory_count: z.number().default(0),
})

/** A page. */
export type InventoryPage = z.infer<typeof inventoryPage>

/** The platform's numbers of what is particular to an asset. */
const PROPERTY = { seed: 1, float: 2, charmPattern: 3, nameTag: 5, finish: 7 } as const

/** How an asset's links and pictures are spelled out. */
interface AssetScope {
  accountId: string
  /** Root of the platform's pictures, with a trailing slash. */
  imageRoot: string
}

/** The assets of a page, in its order. */
export function assetsOf(page: InventoryPage, scope: AssetScope): PlatformAsset[] {
  const describedBy = new Map(page.descriptions.map(one => [`${one.classid}_${one.instanceid}`, one]))
  const propertiesOf = new Map(page.asset_properties.map(one => [one.assetid, one.asset_properties]))
  return page.assets.flatMap(({ assetid, classid, instanceid, amount }): PlatformAsset[] => {
    const described = describedBy.get(`${classid}_${instanceid}`)
    if (!described) return []
    const properties = new Map((propertiesOf.get(assetid) ?? []).map(one => [one.propertyid, one]))
    const integer = (id: number): number | null => wholeNumber(properties.get(id)?.int_value)
    const html = described.descriptions.map(({ value }) => value).join('\n')
    return [
      {
        assetid,
        marketHashName: described.market_hash_name,
        paintIndex: integer(PROPERTY.finish),
        name: described.name,
        iconUrl: pictureOf(described.icon_url, scope),
        isTradable: described.tradable,
        isMarketable: described.marketable,
        quantity: Math.max(1, wholeNumber(amount) ?? 1),
        details: {
          float_value: share(properties.get(PROPERTY.float)?.float_value),
          paint_seed: integer(PROPERTY.seed),
          inspect_link: inspectLink(described.actions[0]?.link, assetid, scope.accountId),
          name_tag: properties.get(PROPERTY.nameTag)?.string_value ?? nameTagOf(described.fraudwarnings),
          stickers: applied(html, 'sticker')?.map(({ name, at }) => ({ name, slot: at, wear: null })) ?? null,
          charms:
            applied(html, 'charm')?.map(({ name }) => ({ name, pattern_id: integer(PROPERTY.charmPattern) })) ?? null,
        },
        tags: Object.fromEntries(described.tags.map(tag => [tag.category, tag.localized_tag_name])),
      },
    ]
  })
}

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

/** The platform's link has placeholders for what is particular to the asset. */
function inspectLink(template: string | undefined, assetid: string, accountId: string): string | null {
  if (template === undefined || !/^(?!javascript|data|vbscript)[a-z]+:\/\//i.test(template)) return null
  return template.replaceAll('%owner_steamid%', accountId).replaceAll('%assetid%', assetid)
}

function nameTagOf(warnings: readonly string[]): string | null {
  for (const warning of warnings) {
    const found = /^Name Tag: ''(.*)''$/s.exec(warning)
    if (found) return found[1] ?? null
  }
  return null
}

const KINDS = {
  sticker: { block: 'sticker_info', label: 'Sticker' },
  charm: { block: 'keychain_info', label: 'Charm' },
}

/** What is applied to an asset is listed in a block of HTML: a picture each, with a title. */
function applied(html: string, kind: keyof typeof KINDS): { name: string; at: number }[] | null {
  const { block, label } = KINDS[kind]
  const start = html.indexOf(`id="${block}"`)
  if (start < 0) return null
  const end = html.indexOf('</div>', start)
  const inside = html.slice(start, end < 0 ? undefined : end)
  const titles = [...inside.matchAll(new RegExp(`<img[^>]*\\btitle="${label}: ([^"]*)"`, 'g'))]
  return titles.map(([, name = ''], at) => ({ name: unescaped(name), at }))
}

const ENTITIES: Record<string, string> = { '&amp;': '&', '&quot;': '"', '&#39;': "'", '&lt;': '<', '&gt;': '>' }

const unescaped = (text: string): string => text.replaceAll(/&(?:amp|quot|#39|lt|gt);/g, one => ENTITIES[one] ?? one)
