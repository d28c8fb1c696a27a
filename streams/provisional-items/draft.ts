/** What the name of an item tells of it; the rest is null. */
import { draftFromNames } from '#infra/config/build/observed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

/** Whose picture it is (a team's, an event's) is not in the name. */
const GRAPHICS: ReadonlySet<string | null> = new Set(['Graffiti', 'Patch', 'Sticker', 'Sticker Slab'])

export function openDrafting(items: readonly CatalogItem[]): (name: string) => Omit<CatalogItem, 'item_id'> {
  const draftOf = draftFromNames({ drafts: [...items], families: new Map() })
  return name => {
    const draft = draftOf(name)
    return GRAPHICS.has(draft.item_type) ? { ...draft, item_subtype: null } : draft
  }
}
