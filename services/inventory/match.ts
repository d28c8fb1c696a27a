/**
 * Which catalog item an asset of the platform is.
 *
 * Phases share a name, so the finish decides among them; without a finish the asset is the item as a whole. An asset is
 * matched by its exact name or not at all.
 */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { PlatformAsset } from './asset.ts'

/** What of the catalog is asked. */
export interface CatalogNames {
  byId(itemId: number): CatalogItem | undefined
  /** All items that share a name, the one without a phase first. */
  idsOfName(marketHashName: string): readonly number[]
}

/** The item of an asset; undefined when the catalog has none. */
export function matchAsset(
  catalog: CatalogNames,
  { marketHashName, paintIndex }: Pick<PlatformAsset, 'marketHashName' | 'paintIndex'>,
): CatalogItem | undefined {
  const items = catalog.idsOfName(marketHashName).flatMap(id => catalog.byId(id) ?? [])
  const ofFinish =
    paintIndex === null ? undefined : items.find(item => item.phase !== null && item.paint_index === paintIndex)
  return ofFinish ?? items[0]
}
