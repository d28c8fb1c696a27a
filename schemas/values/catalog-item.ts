/**
 * The catalog item: one tradable thing with its own `item_id`.
 *
 * Invariant: an `item_id` never changes its (market_hash_name, phase) pair; `crates` and `crates_images` have the same
 * length. Items of one list may share their crate arrays, so these must not be modified.
 */
import type { Phase } from './phase.ts'

/** One item of the catalog; null is what neither source nor name gives. */
export interface CatalogItem {
  item_id: number
  market_hash_name: string
  /** Null for an item without phases and for the entry of a phased finish as a whole. */
  phase: Phase | null
  /** The class, such as `Weapon`, `Sticker` or `Crate`. */
  item_type: string | null
  /** The family within the class, such as `Rifles` or `Autograph`; a music kit has none. */
  item_subtype: string | null
  /** The kind of a weapon, such as `Assault Rifle` or `Knife`; null for all else. */
  weapon_type: string | null
  /** The model of a weapon, such as `AK-47`; what comes before the first bar of other names. */
  base_name: string | null
  skin_name: string | null
  wear_name: string | null
  def_index: string | null
  paint_index: number | null
  collection: string | null
  collection_image: string | null
  crates: readonly string[]
  /** Index-aligned with `crates`. */
  crates_images: readonly string[]
  /** YYYY-MM-DD. */
  release_date: string | null
  rarity_name: string | null
  /** Six lower-case hex digits. */
  rarity_color: string | null
  style_name: string | null
  is_stattrak: boolean
  is_souvenir: boolean
  /** Bounds of the finish as a whole, not of the wear. */
  min_float: number | null
  max_float: number | null
  image_url: string | null
  /** Units in circulation; the member is absent when unknown. */
  supply?: number
  /** Present where markets list the item and the built catalog lacks it. */
  is_provisional?: true
}

/** Finds the item of a name, in any spelling (item-name.ts), and phase; a null phase is the phaseless entry. */
export type ResolveItem = (marketHashName: string, phase: string | null) => number | undefined

export interface CatalogLookup {
  readonly version: string
  readonly idOf: ResolveItem
}
