/**
 * The catalog's source: what the package @ianlucas/cs2-lib knows, as plain data.
 *
 * The only file that imports it (a development dependency): the platform itself reads the built file.
 */
import { CS2_ITEMS, CS2ContainerType, CS2Economy, type CS2EconomyItem, CS2ItemTeam } from '@ianlucas/cs2-lib'
import { english } from '@ianlucas/cs2-lib/translations'
import { parsePhase } from '#schemas/values/phase.ts'
import { WEARS } from '../build/market-name.ts'

export type Yield = 'normal' | 'stattrak' | 'souvenir'

export type SourceItem = ReturnType<typeof sourceItem>

export function readSource(): SourceItem[] {
  CS2Economy.use({ items: CS2_ITEMS, language: english })
  return CS2Economy.itemsAsArray.map(sourceItem)
}

function sourceItem(item: CS2EconomyItem) {
  return {
    id: item.id,
    kind: item.type as string,
    /** The source's English name, such as `AK-47 | Redline` or `Container | Fever Case`. */
    name: item.name,
    phase: parsePhase(item.altName ?? '') ?? null,
    /** Text that the source keeps beside an ambiguous name. */
    note: item.altName ?? null,
    description: item.desc ?? '',
    /** Text about the tournament that an item commemorates. */
    tournament: item.tournamentDesc ?? null,
    weaponKind: item.isWeapon() ? weaponKind(item) : null,
    side: sideOf(item),
    isBase: item.base === true,
    /** Given to every player and never traded. */
    isFree: item.free === true,
    defIndex: item.def ?? null,
    paintIndex: item.isPaintable() ? (item.index ?? null) : null,
    rarityColor: item.rarity ?? null,
    collection: item.collectionName ?? null,
    collectionImage: item.collectionImage === undefined ? null : item.getCollectionImage(),
    minFloat: item.wearMin ?? null,
    maxFloat: item.wearMax ?? null,
    image: item.image === undefined ? null : item.getImage(),
    /** Image by wear name, for painted items. */
    wearImages: wearImages(item),
    contents: [...(item.rawContents ?? []), ...(item.rawSpecials ?? [])],
    yields: item.isContainer() ? yieldsOf(item) : [],
    /** The sticker inside a slab. */
    stickerId: item.stickerId ?? null,
  }
}

function weaponKind(item: CS2EconomyItem): string | null {
  if (item.isPistol()) return 'Pistol'
  if (item.isSMG()) return 'SMG'
  if (item.isSniperRifle()) return 'Sniper Rifle'
  if (item.isRifle()) return 'Assault Rifle'
  if (item.isMachinegun()) return 'Machine Gun'
  if (item.isHeavy()) return 'Shotgun'
  return item.isEquipment() ? 'Taser' : null
}

function sideOf(item: CS2EconomyItem): 'Terrorist' | 'Counter-Terrorist' | null {
  if (item.item.teams === CS2ItemTeam.T) return 'Terrorist'
  return item.item.teams === CS2ItemTeam.CT ? 'Counter-Terrorist' : null
}

/** The package picks one of three worn images by float; the middle of each possible range decides. */
function wearImages(item: CS2EconomyItem): Record<string, string> {
  const { wearMin, wearMax } = item
  if (!item.hasWear() || wearMin === undefined || wearMax === undefined) return {}
  return Object.fromEntries(
    WEARS.map(wear => {
      const middle = (Math.max(wear.from, wearMin) + Math.min(wear.to, wearMax)) / 2
      return [wear.name, item.getImage(middle)]
    }),
  )
}

function yieldsOf(item: CS2EconomyItem): Yield[] {
  if (item.containerType === CS2ContainerType.SouvenirCase) return ['souvenir']
  if (item.statTrakOnly) return ['stattrak']
  const givesStattrak = item.containerType === CS2ContainerType.WeaponCase && !item.statTrakless
  return givesStattrak ? ['normal', 'stattrak'] : ['normal']
}
